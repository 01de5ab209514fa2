"""Generated protobuf modules, flat: `inference_pb2`, `worker_pb2` and their `_grpc` stubs.

Made from proto/ by `make proto` (proto/generate.py) and checked in; never edited by hand.
"""
