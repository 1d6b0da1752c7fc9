package classify

import "github.com/superloop/superloop/internal/multiscan"

// workspace is what one reading needs and the next one can have again.
type workspace struct {
	sc  *multiscan.Scanner
	buf []byte
}

func (w *workspace) scanner(set *multiscan.Set, found func(multiscan.Hit)) *multiscan.Scanner {
	if w.sc == nil {
		w.sc = set.NewScanner(found)
	} else {
		w.sc.Reset(found)
	}
	return w.sc
}

func (w *workspace) buffer() []byte {
	if w.buf == nil {
		w.buf = make([]byte, backSize+blockSize)
	}
	return w.buf
}

// release drops what would keep the last reading alive.
func (w *workspace) release() {
	if w.sc != nil {
		w.sc.Reset(func(multiscan.Hit) {})
	}
}
