// A plugin for Airlock in Go, on HashiCorp's go-plugin as it is.
//
// It serves PluginLifecycle on its first connection and Tool on a brokered one, and calls the kernel
// on another. How it behaves is said by its configuration, `{"serve": "broker"}`, or by its first
// argument, `netrpc` or `version`.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/rpc"
	"os"
	"time"

	plugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

var handshake = plugin.HandshakeConfig{
	ProtocolVersion:  1,
	MagicCookieKey:   "AIRLOCK_PLUGIN",
	MagicCookieValue: "4e0c1d0f6f5b4d1fa9b35a8d1c7e2b90",
}

// tools is both plugin and service.
type tools struct {
	plugin.NetRPCUnsupportedPlugin
	broker *plugin.GRPCBroker
	kernel *grpc.ClientConn
	name   string
}

func (t *tools) GRPCServer(broker *plugin.GRPCBroker, server *grpc.Server) error {
	t.broker = broker
	server.RegisterService(&lifecycleService, t)
	server.RegisterService(&toolService, t)
	return nil
}

func (t *tools) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (interface{}, error) {
	return nil, errors.New("this is a plugin")
}

func (t *tools) Init(_ context.Context, request *InitRequest) (*InitResponse, error) {
	var configuration struct {
		Serve string `json:"serve"`
		Fail  string `json:"fail"`
	}
	if err := json.Unmarshal([]byte(request.ConfigurationJson), &configuration); err != nil {
		return nil, err
	}
	if configuration.Fail != "" {
		return nil, errors.New(configuration.Fail)
	}
	t.name = request.Name
	kernel, err := t.broker.Dial(request.KernelBrokerId)
	if err != nil {
		return nil, fmt.Errorf("dial the kernel: %w", err)
	}
	t.kernel = kernel
	if configuration.Serve != "broker" {
		return &InitResponse{}, nil
	}
	id := t.broker.NextId() + 100
	go t.broker.AcceptAndServe(id, func(options []grpc.ServerOption) *grpc.Server {
		server := grpc.NewServer(options...)
		server.RegisterService(&toolService, t)
		return server
	})
	return &InitResponse{ServeBrokerId: id}, nil
}

func (t *tools) Health(context.Context, *HealthRequest) (*HealthResponse, error) {
	return &HealthResponse{Well: true}, nil
}

func (t *tools) Shutdown(context.Context, *ShutdownRequest) (*ShutdownResponse, error) {
	return &ShutdownResponse{}, nil
}

func (t *tools) Describe(context.Context, *DescribeRequest) (*DescribeResponse, error) {
	tool := func(name, summary string) *ToolDescription {
		return &ToolDescription{Name: name, Summary: summary, SchemaJson: `{"type":"object"}`, ReadOnly: true}
	}
	return &DescribeResponse{Tools: []*ToolDescription{
		tool("echo", "Say the arguments again"),
		tool("ask", "Submit a syscall to the kernel"),
		tool("slow", "Say numbers, a second each"),
		tool("about", "Say what is known of the call"),
		tool("hit", "Keep count of calls, in its own directory"),
	}}, nil
}

func (t *tools) Execute(request *ExecuteRequest, stream grpc.ServerStream) error {
	result := func(value interface{}) error {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		return stream.SendMsg(&ExecuteResponse{ResultJson: string(text)})
	}
	switch request.Tool {
	case "echo":
		if err := stream.SendMsg(&ExecuteResponse{Output: "echoing\n"}); err != nil {
			return err
		}
		return stream.SendMsg(&ExecuteResponse{ResultJson: request.ArgumentsJson})
	case "ask":
		var asked struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := json.Unmarshal([]byte(request.ArgumentsJson), &asked); err != nil {
			return err
		}
		var answer SubmitResponse
		err := t.kernel.Invoke(stream.Context(), "/airlock.plugin.v1.Kernel/Submit", &SubmitRequest{
			Name:          asked.Name,
			ArgumentsJson: string(asked.Arguments),
			Within:        request.Action,
		}, &answer)
		if err != nil {
			return err
		}
		if answer.Error != nil {
			return stream.SendMsg(&ExecuteResponse{Failure: answer.Error.Code + ": " + answer.Error.Message})
		}
		return stream.SendMsg(&ExecuteResponse{ResultJson: answer.ResultJson})
	case "slow":
		for number := 0; ; number++ {
			if err := stream.SendMsg(&ExecuteResponse{Output: fmt.Sprintln(number)}); err != nil {
				return err
			}
			select {
			case <-stream.Context().Done():
				return stream.Context().Err()
			case <-time.After(time.Second):
			}
		}
	case "hit":
		var given struct {
			Id string `json:"id"`
		}
		if err := json.Unmarshal([]byte(request.ArgumentsJson), &given); err != nil {
			return err
		}
		// One write of a few bytes at the end of a file is whole, whoever else writes.
		hits, err := os.OpenFile("hits", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer hits.Close()
		if _, err := hits.WriteString(given.Id + "\n"); err != nil {
			return err
		}
		return result(given)
	case "about":
		return result([]interface{}{t.name, request.Action, request.Session, request.Mode, request.DeadlineMs})
	}
	return stream.SendMsg(&ExecuteResponse{Failure: "there is no such tool"})
}

// old speaks net/rpc only.
type old struct{}

func (old) Server(*plugin.MuxBroker) (interface{}, error) { return struct{}{}, nil }
func (old) Client(*plugin.MuxBroker, *rpc.Client) (interface{}, error) {
	return nil, errors.New("this is a plugin")
}

func main() {
	config := &plugin.ServeConfig{
		HandshakeConfig: handshake,
		Plugins:         plugin.PluginSet{"tools": &tools{}},
		GRPCServer:      plugin.DefaultGRPCServer,
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "netrpc":
			config.Plugins = plugin.PluginSet{"old": old{}}
			config.GRPCServer = nil
		case "version":
			config.HandshakeConfig.ProtocolVersion = 77
		}
	}
	plugin.Serve(config)
}
