//go:build !amd64

package multiscan

// lanes is what the fast loops need to know of a shape; here there are none.
type lanes struct{}

func (*lanes) set(*shape) {}

func (f *filter) probeFast(_ []byte, i, _ int, _ *places) (n, next int) { return 0, i }

func (f *filter) siftFast(_ []byte, _, _ *places, _ int) (done, kept int) { return 0, 0 }
