package badgerstore

import (
	"context"
	"sync"
)

// background is work that goes on beside the store's calls, until it is done or
// stopped. Its zero value has nothing to do.
type background struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func (b *background) start(work func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	b.wg.Go(func() { work(ctx) })
}

// stop ends the work and waits for it.
func (b *background) stop() {
	if b.cancel != nil {
		b.cancel()
	}
	b.wg.Wait()
}
