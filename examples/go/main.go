// A client in Go, `go run . 127.0.0.1:50051 "a prompt"`: waits for the model, streams its answer, outlives a restart.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"time"

	pb "example/spectriev1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func main() {
	log.SetFlags(0)
	// WaitForReady: a call made while the server is away waits for it, up to its context's deadline.
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	waitForModel(ctx, health.NewHealthClient(conn))

	tokens, seed, printed := uint32(1500), rand.Uint64(), 0
	request := &pb.GenerateRequest{
		Prompt:   &pb.GenerateRequest_Text{Text: os.Args[2]},
		Stopping: &pb.Stopping{MaxTokens: &tokens},
		Sampling: &pb.Sampling{Seed: &seed},
	}
	for {
		err := answer(ctx, pb.NewInferenceClient(conn), request, &printed)
		if err == io.EOF {
			return
		}
		if status.Code(err) != codes.Unavailable {
			log.Fatal(err)
		}
		// It was restarted, or has no worker: the same seed makes the same answer again.
		log.Printf("asking again for seed %d: %v", seed, err)
		time.Sleep(time.Second)
	}
}

// waitForModel returns once a worker can answer; the server alone answers sooner.
func waitForModel(ctx context.Context, client health.HealthClient) {
	log.Print("waiting for the model")
	for {
		answer, err := client.Check(ctx, &health.HealthCheckRequest{Service: "spectrie.v1.Inference"})
		check(ctx.Err())
		if err == nil && answer.Status == health.HealthCheckResponse_SERVING {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// answer prints an answer as it comes, behind the bytes that were printed before. At its end err is io.EOF.
func answer(ctx context.Context, client pb.InferenceClient, request *pb.GenerateRequest, printed *int) error {
	stream, err := client.GenerateStream(ctx, request)
	for text := ""; err == nil; {
		var event *pb.GenerateEvent
		if event, err = stream.Recv(); err == nil {
			text += event.GetDelta().GetText()
			if len(text) > *printed {
				fmt.Print(text[*printed:])
				*printed = len(text)
			}
		}
	}
	return err
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
