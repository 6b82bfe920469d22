package natsfleet

import "sync"

// background is what a coordinator does beside what it hears. Once it is waited for, nothing begins any more: workers
// go on to speak meanwhile.
type background struct {
	mu    sync.Mutex
	ended bool
	group sync.WaitGroup
}

// Go calls f on a goroutine of its own, unless the end is waited for.
func (b *background) Go(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.group.Go(f)
	}
}

// Wait returns when all that was begun has ended.
func (b *background) Wait() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.group.Wait()
}
