package steering

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superloop/superloop/internal/durable"
	"github.com/superloop/superloop/recovery/places"
	"github.com/superloop/superloop/recovery/sandbox"
)

// Free is what a symbolic link leads to that keeps a missing name free. The directory does not exist in any /proc, so
// programs find nothing at the name, and nothing can be made there.
const Free = "/proc/self/superloop-keeps-this-name-free/while-a-loop-runs"

// made is the name of a link to Free in each directory that a Keeper made. With the links it goes, and so does the
// directory if nothing else lies in it.
const made = ".made-by-superloop"

// Keeper keeps missing names free while a supervisor runs. Several supervisors may have the same home directory. Each
// holds a shared lock on the directory, and the last one removes the links. What a killed supervisor left, the next one
// removes, or uses. A Keeper is safe for use by several goroutines.
type Keeper struct {
	home Home
	disk durable.Disk

	mu     sync.Mutex
	lock   *os.File // the home directory, nil if there is none
	links  []string // the links that keep names free, whoever made them
	places []Place
}

// NewKeeper returns a Keeper. It writes nothing before its method Around is called. The caller has to call Close.
func NewKeeper(home Home, disk durable.Disk) *Keeper {
	return &Keeper{home: home, disk: disk}
}

// Around looks at all places again, makes the links, and returns what is to be protected now. It is a function for
// sandbox.Protection.Around.
func (k *Keeper) Around() sandbox.Protection {
	k.mu.Lock()
	defer k.mu.Unlock()
	// Without the lock, another supervisor may remove a link too early. The next start of an agent makes it again.
	k.share()
	s := k.home.Survey()
	k.places = s.Places
	var marks []string
	for _, dir := range s.Dirs {
		if err := k.disk.Mkdir("steering", dir, 0o700); err == nil {
			marks = append(marks, filepath.Join(dir, made))
		}
	}
	k.disk.Symlinks("steering", Free, marks) // without its mark the directory stays
	failed := k.disk.Symlinks("steering", Free, s.Free)
	p := sandbox.Protection{ReadOnly: s.Files, Writable: s.Writable, Links: s.Links, Hidden: s.Sockets, Private: s.Private}
	for _, name := range s.Free {
		switch to, err := os.Readlink(name); {
		case err == nil && to == Free:
			p.Links = add(p.Links, name)
			k.links = add(k.links, name)
		case errors.Is(failed[name], unix.EROFS):
			// Agents cannot make it either.
		default:
			k.expose(name, failed[name])
		}
		mark := filepath.Join(filepath.Dir(name), made)
		if to, err := os.Readlink(mark); err == nil && to == Free {
			p.Links = add(p.Links, mark) // an agent that removed it would have the directory left behind
		}
	}
	return p
}

// expose says that a name could not be kept free.
func (k *Keeper) expose(name string, err error) {
	for i, p := range k.places {
		if p.State == Kept && under(p.Path, name) {
			k.places[i].State, k.places[i].Note = Exposed, fmt.Sprint("it could not be kept free: ", err)
		}
	}
}

// Places returns the places as Around found them the last time.
func (k *Keeper) Places() []Place {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.places)
}

// share takes the shared lock on the home directory. If no other supervisor holds it, share first removes what killed
// supervisors left.
func (k *Keeper) share() {
	home := lookup(k.home.Env, "HOME")
	if k.lock != nil || !filepath.IsAbs(home) {
		return
	}
	dir, err := os.Open(home)
	if err != nil {
		return // there is no home directory in which names could be kept free
	}
	k.lock = dir
	if flock(dir, unix.LOCK_EX) {
		k.sweep()
	}
	// Another supervisor may be removing its links at this moment, which takes milliseconds.
	for tries := 0; !flock(dir, unix.LOCK_SH) && tries < shareTries; tries++ {
		<-time.After(shareWait)
	}
}

// The waits for a shared lock: one second together. An agent of another supervisor could hold the lock for ever.
const (
	shareTries = 50
	shareWait  = 20 * time.Millisecond
)

// flock changes the lock on an open directory, without waiting, and reports whether that worked.
func flock(dir *os.File, how int) bool { return unix.Flock(int(dir.Fd()), how|unix.LOCK_NB) == nil }

// sweep removes all links that lead to Free from the directories below the home directory in which a Keeper makes them,
// those that this Keeper uses elsewhere, and the directories that a Keeper made. The caller holds the exclusive lock.
func (k *Keeper) sweep() {
	s := k.home.surveyor()
	dirs := []string{}
	for _, e := range places.Entries() {
		for _, word := range e.Holds {
			for _, path := range expand(word, s.home, k.home.Env) {
				for dir := filepath.Dir(path); under(dir, s.home) && !slices.Contains(dirs, dir); dir = filepath.Dir(dir) {
					dirs = append(dirs, dir)
				}
			}
		}
	}
	for _, path := range slices.Concat(k.home.Paths, filepath.SplitList(lookup(k.home.Env, "PATH"))) {
		for _, path := range expand(path, s.home, k.home.Env) {
			if dir := filepath.Dir(path); under(dir, s.home) { // the lock says nothing of another home directory
				dirs = add(dirs, dir)
			}
		}
	}
	links := []string{}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && to == Free {
				links = append(links, filepath.Join(dir, e.Name()))
			}
		}
	}
	links = append(links, k.links...)
	k.disk.RemoveSymlinks("steering", Free, links) // what fails, the next supervisor tries again
	slices.SortFunc(links, func(a, b string) int { return len(b) - len(a) })
	for _, link := range links {
		if filepath.Base(link) == made {
			_ = k.disk.Unlink("steering", filepath.Dir(link)) // fails if something else lies in it
		}
	}
}

// Close removes the links, and the directories that were made for them and are empty, unless another supervisor has the
// same home directory. No agent may be running. A nil Keeper has nothing to close.
func (k *Keeper) Close() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lock == nil {
		return
	}
	if flock(k.lock, unix.LOCK_EX) {
		k.sweep()
	}
	_ = k.lock.Close() // it was only read
	k.lock = nil
}
