package wasm

import "os"

func machineMemory() uint64 { return linuxMemory(os.DirFS("/")) }
