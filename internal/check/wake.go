package check

// Wake wakes a goroutine that waits at a channel with room for one value, and then looks for what there is to do. It
// does not block.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is one already
	}
}
