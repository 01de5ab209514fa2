//! The router: gRPC and OpenAI HTTP in front, workers behind.
