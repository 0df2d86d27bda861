package wasm

import (
	"context"
	"errors"
	"sync"

	extism "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

const renumberName = "fd_renumber"

// maxDescriptor bounds the numbers that a guest may give its open files. wazero
// keeps them in a list as long as the largest number: one call of fd_renumber could
// take 16 GiB from the host, or end it where there is no such memory.
const maxDescriptor = 1 << 10

// What fd_renumber answers, of WASI's errno.
const (
	wasiBadDescriptor = 8
	wasiNotSupported  = 58
)

// wasiRenumber is wazero's own.
var wasiRenumber = sync.OnceValues(func() (api.GoModuleFunction, error) {
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer rt.Close(ctx)
	c, err := wasi_snapshot_preview1.NewBuilder(rt).Compile(ctx)
	if err != nil {
		return nil, err
	}
	def, ok := c.ExportedFunctions()[renumberName]
	if !ok || newSignature(def.ParamTypes(), def.ResultTypes()) != "i32,i32>i32" {
		return nil, errors.New("the runtime has no " + renumberName + " that could be bounded")
	}
	f, ok := def.GoFunction().(api.GoModuleFunction)
	if !ok {
		return nil, errors.New("the runtime's " + renumberName + " cannot be bounded")
	}
	return f, nil
})

// instantiateWASI offers WASI to commands, as wazero does, with a bounded
// fd_renumber.
func instantiateWASI(ctx context.Context, rt wazero.Runtime) error {
	renumber, err := wasiRenumber()
	if err != nil {
		return err
	}
	b := rt.NewHostModuleBuilder(wasiModule)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(b)
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, stack []uint64) {
		if api.DecodeU32(stack[1]) >= maxDescriptor {
			stack[0] = wasiBadDescriptor
			return
		}
		renumber.Call(ctx, m, stack)
	}), []api.ValueType{api.ValueTypeI32, api.ValueTypeI32}, []api.ValueType{api.ValueTypeI32}).Export(renumberName)
	_, err = b.Instantiate(ctx)
	return err
}

// renumberHostFunction takes the place of fd_renumber for plugins of Extism's, which
// says no: a function of ours has no way to their open files there.
func renumberHostFunction() extism.HostFunction {
	return extism.NewHostFunctionWithStack(renumberFunction, func(_ context.Context, _ *extism.CurrentPlugin, stack []uint64) {
		stack[0] = wasiNotSupported
	}, []extism.ValueType{extism.ValueTypeI32, extism.ValueTypeI32}, []extism.ValueType{extism.ValueTypeI32})
}
