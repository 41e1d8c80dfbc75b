package main

// The messages and services of proto/airlock/plugin/v1, as far as this plugin needs them. Written by
// hand, so that no code generator is needed to build it. What is a choice of fields there is all of
// them here, of which one is set: the same bytes.

import (
	"context"

	"google.golang.org/grpc"
)

type InitRequest struct {
	Name              string `protobuf:"bytes,1,opt,name=name,proto3"`
	ConfigurationJson string `protobuf:"bytes,4,opt,name=configuration_json,proto3"`
	KernelBrokerId    uint32 `protobuf:"varint,7,opt,name=kernel_broker_id,proto3"`
}

type InitResponse struct {
	ServeBrokerId uint32 `protobuf:"varint,1,opt,name=serve_broker_id,proto3"`
}

type HealthRequest struct{}

type HealthResponse struct {
	Well   bool   `protobuf:"varint,1,opt,name=well,proto3"`
	Reason string `protobuf:"bytes,2,opt,name=reason,proto3"`
}

type ShutdownRequest struct{}
type ShutdownResponse struct{}
type DescribeRequest struct{}

type DescribeResponse struct {
	Tools []*ToolDescription `protobuf:"bytes,1,rep,name=tools,proto3"`
}

type ToolDescription struct {
	Name       string `protobuf:"bytes,1,opt,name=name,proto3"`
	Summary    string `protobuf:"bytes,2,opt,name=summary,proto3"`
	SchemaJson string `protobuf:"bytes,3,opt,name=schema_json,proto3"`
	ReadOnly   bool   `protobuf:"varint,4,opt,name=read_only,proto3"`
}

type ExecuteRequest struct {
	Action        string `protobuf:"bytes,1,opt,name=action,proto3"`
	Tool          string `protobuf:"bytes,2,opt,name=tool,proto3"`
	ArgumentsJson string `protobuf:"bytes,3,opt,name=arguments_json,proto3"`
	Session       string `protobuf:"bytes,4,opt,name=session,proto3"`
	Mode          string `protobuf:"bytes,5,opt,name=mode,proto3"`
	DeadlineMs    uint64 `protobuf:"varint,6,opt,name=deadline_ms,proto3"`
}

type ExecuteResponse struct {
	Output     string `protobuf:"bytes,1,opt,name=output,proto3"`
	ResultJson string `protobuf:"bytes,2,opt,name=result_json,proto3"`
	Failure    string `protobuf:"bytes,3,opt,name=failure,proto3"`
}

type SubmitRequest struct {
	Name          string `protobuf:"bytes,1,opt,name=name,proto3"`
	ArgumentsJson string `protobuf:"bytes,2,opt,name=arguments_json,proto3"`
	Within        string `protobuf:"bytes,3,opt,name=within,proto3"`
}

type SubmitResponse struct {
	ResultJson string       `protobuf:"bytes,1,opt,name=result_json,proto3"`
	Error      *SubmitError `protobuf:"bytes,2,opt,name=error,proto3"`
}

type SubmitError struct {
	Code      string `protobuf:"bytes,1,opt,name=code,proto3"`
	Message   string `protobuf:"bytes,2,opt,name=message,proto3"`
	Retryable bool   `protobuf:"varint,3,opt,name=retryable,proto3"`
}

func (m *InitRequest) Reset()              { *m = InitRequest{} }
func (m *InitRequest) String() string      { return "InitRequest" }
func (*InitRequest) ProtoMessage()         {}
func (m *InitResponse) Reset()             { *m = InitResponse{} }
func (m *InitResponse) String() string     { return "InitResponse" }
func (*InitResponse) ProtoMessage()        {}
func (m *HealthRequest) Reset()            { *m = HealthRequest{} }
func (m *HealthRequest) String() string    { return "HealthRequest" }
func (*HealthRequest) ProtoMessage()       {}
func (m *HealthResponse) Reset()           { *m = HealthResponse{} }
func (m *HealthResponse) String() string   { return "HealthResponse" }
func (*HealthResponse) ProtoMessage()      {}
func (m *ShutdownRequest) Reset()          { *m = ShutdownRequest{} }
func (m *ShutdownRequest) String() string  { return "ShutdownRequest" }
func (*ShutdownRequest) ProtoMessage()     {}
func (m *ShutdownResponse) Reset()         { *m = ShutdownResponse{} }
func (m *ShutdownResponse) String() string { return "ShutdownResponse" }
func (*ShutdownResponse) ProtoMessage()    {}
func (m *DescribeRequest) Reset()          { *m = DescribeRequest{} }
func (m *DescribeRequest) String() string  { return "DescribeRequest" }
func (*DescribeRequest) ProtoMessage()     {}
func (m *DescribeResponse) Reset()         { *m = DescribeResponse{} }
func (m *DescribeResponse) String() string { return "DescribeResponse" }
func (*DescribeResponse) ProtoMessage()    {}
func (m *ToolDescription) Reset()          { *m = ToolDescription{} }
func (m *ToolDescription) String() string  { return "ToolDescription" }
func (*ToolDescription) ProtoMessage()     {}
func (m *ExecuteRequest) Reset()           { *m = ExecuteRequest{} }
func (m *ExecuteRequest) String() string   { return "ExecuteRequest" }
func (*ExecuteRequest) ProtoMessage()      {}
func (m *ExecuteResponse) Reset()          { *m = ExecuteResponse{} }
func (m *ExecuteResponse) String() string  { return "ExecuteResponse" }
func (*ExecuteResponse) ProtoMessage()     {}
func (m *SubmitRequest) Reset()            { *m = SubmitRequest{} }
func (m *SubmitRequest) String() string    { return "SubmitRequest" }
func (*SubmitRequest) ProtoMessage()       {}
func (m *SubmitResponse) Reset()           { *m = SubmitResponse{} }
func (m *SubmitResponse) String() string   { return "SubmitResponse" }
func (*SubmitResponse) ProtoMessage()      {}
func (m *SubmitError) Reset()              { *m = SubmitError{} }
func (m *SubmitError) String() string      { return "SubmitError" }
func (*SubmitError) ProtoMessage()         {}

// unary makes a method of a service from a function on messages.
func unary(name string, empty func() interface{}, call func(*tools, context.Context, interface{}) (interface{}, error)) grpc.MethodDesc {
	return grpc.MethodDesc{
		MethodName: name,
		Handler: func(server interface{}, ctx context.Context, decode func(interface{}) error, _ grpc.UnaryServerInterceptor) (interface{}, error) {
			request := empty()
			if err := decode(request); err != nil {
				return nil, err
			}
			return call(server.(*tools), ctx, request)
		},
	}
}

var lifecycleService = grpc.ServiceDesc{
	ServiceName: "airlock.plugin.v1.PluginLifecycle",
	HandlerType: (*interface{})(nil),
	Methods: []grpc.MethodDesc{
		unary("Init", func() interface{} { return new(InitRequest) }, func(t *tools, ctx context.Context, m interface{}) (interface{}, error) {
			return t.Init(ctx, m.(*InitRequest))
		}),
		unary("Health", func() interface{} { return new(HealthRequest) }, func(t *tools, ctx context.Context, m interface{}) (interface{}, error) {
			return t.Health(ctx, m.(*HealthRequest))
		}),
		unary("Shutdown", func() interface{} { return new(ShutdownRequest) }, func(t *tools, ctx context.Context, m interface{}) (interface{}, error) {
			return t.Shutdown(ctx, m.(*ShutdownRequest))
		}),
	},
}

var toolService = grpc.ServiceDesc{
	ServiceName: "airlock.plugin.v1.Tool",
	HandlerType: (*interface{})(nil),
	Methods: []grpc.MethodDesc{
		unary("Describe", func() interface{} { return new(DescribeRequest) }, func(t *tools, ctx context.Context, m interface{}) (interface{}, error) {
			return t.Describe(ctx, m.(*DescribeRequest))
		}),
	},
	Streams: []grpc.StreamDesc{{
		StreamName:    "Execute",
		ServerStreams: true,
		Handler: func(server interface{}, stream grpc.ServerStream) error {
			request := new(ExecuteRequest)
			if err := stream.RecvMsg(request); err != nil {
				return err
			}
			return server.(*tools).Execute(request, stream)
		},
	}},
}
