package multiscan

import (
	"context"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
)

// maxWorkers bounds how many cores one input takes.
const maxWorkers = 4

// Workers is how many cores there are for one input, at most 4. With fewer than
// two there is nothing to be won by [Set.NewAhead].
func Workers() int { return min(maxWorkers, runtime.GOMAXPROCS(0)) }

// AheadOptions say how an input is cut.
type AheadOptions struct {
	Block   int // bytes of a block; at least 1
	Back    int // bytes of what is before a block that come with it; at least 1 is taken
	Workers int // goroutines that look through blocks; 0: Workers()
}

// Ahead reads an input block by block and looks through the blocks on several
// cores before it is their turn. What a [Scanner] is given block by block then is the
// same, to the byte and to the count, as by writing the blocks to it. It takes
// memory for twice as many blocks as there are workers and one, and about two MiB
// more for each at the worst.
type Ahead struct {
	set  *Set
	r    io.ReaderAt
	from int64 // of the first block in r
	size int64 // of all blocks
	o    AheadOptions

	free    chan *Block
	ready   []chan *Block // in turn
	next    atomic.Int64  // number of the block to be looked through next
	taken   int64         // blocks that Next gave
	current *Block
	broken  bool // a block could not be read

	stop    chan struct{}
	workers sync.WaitGroup
}

// Block is one block of an input, valid until [Ahead.Next] gives another, or
// [Ahead.Close].
type Block struct {
	Window []byte // what is before the block, and the block
	Back   int    // bytes of Window that are before the block

	buf    []byte
	looked looked
	whole  bool // it could be read
}

// NewAhead begins to read the bytes of r from one place on to another, which
// several goroutines do at once. Only whole blocks are read: what is left, less than
// o.Block bytes, is the caller's to write. Close must be called.
func (s *Set) NewAhead(r io.ReaderAt, from, to int64, o AheadOptions) *Ahead {
	o.Block, o.Back = max(1, o.Block), max(1, o.Back)
	if o.Workers <= 0 {
		o.Workers = Workers()
	}
	count := max(0, to-from) / int64(o.Block)
	o.Workers = int(min(int64(o.Workers), count))
	a := &Ahead{set: s, r: r, from: from, size: count * int64(o.Block), o: o, stop: make(chan struct{})}
	slots := 2*o.Workers + 1
	a.free, a.ready = make(chan *Block, slots), make([]chan *Block, slots)
	for i := range a.ready {
		a.ready[i] = make(chan *Block, 1)
		b, _ := s.blocks.Get().(*Block)
		if b == nil || len(b.buf) < o.Back+o.Block {
			b = &Block{buf: make([]byte, o.Back+o.Block)}
		}
		a.free <- b
	}
	for range o.Workers {
		a.workers.Go(a.work)
	}
	return a
}

// work looks through blocks until there are no more. It has a block's memory before
// it takes a number: the block whose turn is next is always being worked on.
func (a *Ahead) work() {
	sc, _ := a.set.lookers.Get().(*Scanner)
	if sc == nil {
		sc = a.set.NewScanner(nil)
	}
	defer a.set.lookers.Put(sc)
	for {
		var b *Block
		select {
		case <-a.stop:
			return
		case b = <-a.free:
		}
		n := a.next.Add(1) - 1
		at := n * int64(a.o.Block)
		if at >= a.size {
			a.free <- b
			return
		}
		b.Back = int(min(at, int64(a.o.Back)))
		b.Window = b.buf[:b.Back+a.o.Block]
		// An error is met again by the caller, who then reads there.
		read, _ := a.r.ReadAt(b.Window, a.from+at-int64(b.Back))
		if b.whole = read == len(b.Window); b.whole {
			sc.look(b.Window[b.Back:], at == 0 || b.Window[b.Back-1] == '\n', &b.looked)
		}
		a.ready[n%int64(len(a.ready))] <- b
	}
}

// Next waits for the next block. It gives nil after the last one, when the context
// is done, and where a block could not be read whole: then the caller, who
// knows how far it came, reads on by itself.
func (a *Ahead) Next(ctx context.Context) *Block {
	if a.broken || a.taken*int64(a.o.Block) >= a.size || ctx.Err() != nil {
		return nil
	}
	var b *Block
	select {
	case <-ctx.Done():
		return nil
	case b = <-a.ready[a.taken%int64(len(a.ready))]:
	}
	if !b.whole {
		a.broken = true
		a.free <- b
		return nil
	}
	if a.current != nil {
		a.free <- a.current
	}
	a.current = b
	a.taken++
	return b
}

// Close ends the workers, waits for them and gives the memory back. It waits as long as
// a read takes that is under way.
func (a *Ahead) Close() {
	close(a.stop)
	a.workers.Wait()
	if a.current != nil {
		a.set.blocks.Put(a.current)
	}
	for _, c := range append(a.ready, a.free) {
		for len(c) > 0 {
			a.set.blocks.Put(<-c)
		}
	}
	a.current = nil
}

// WriteBlock is Write of a block, of which the filter's part is done already. The
// block is the one that comes next in the stream.
func (sc *Scanner) WriteBlock(b *Block) { sc.writeLooked(b.Window[b.Back:], &b.looked) }
