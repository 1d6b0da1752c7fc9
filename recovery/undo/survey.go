package undo

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// survey is what is at a place: everything below it, by sizes and times.
type survey struct {
	kind  kind // isMissing: nothing is there
	files int  // entries of any kind
	bytes int64
	// sum changes when anything in the tree does: names, kinds, modes, sizes, times of files, targets of links. A
	// copy made by cp -a has the same.
	sum string
	// exact is sum with the identity and the change time of each file, which no program can set: it tells the same
	// tree from a copy of it.
	exact string
	odd   []string // sockets, pipes, devices: they are not part of it
	probe string   // of a directory: a regular file that is not empty, relative to it
}

var (
	errTooMany = errors.New("it has more files than are kept")
	errTooBig  = errors.New("it is bigger than what is kept")
	errMount   = errors.New("another file system is mounted in it")
	errGrew    = errors.New("it changed while it was read")
)

// look surveys a place, as far as the bounds go. It follows no link.
func (p place) look(maxFiles int, maxBytes int64) (survey, error) {
	st, err := p.lstat()
	if err != nil || st.Mode == 0 {
		return survey{}, err
	}
	s := surveyor{dev: uint64(st.Dev), maxFiles: maxFiles, maxBytes: maxBytes, sum: sha256.New(), exact: sha256.New()}
	s.out.kind = kindOf(uint32(st.Mode))
	if err := s.entry(int(p.dir.Fd()), p.name, "", &st); err != nil {
		return s.out, err
	}
	s.out.sum, s.out.exact = hex.EncodeToString(s.sum.Sum(nil)), hex.EncodeToString(s.exact.Sum(nil))
	return s.out, nil
}

type surveyor struct {
	dev        uint64
	maxFiles   int
	maxBytes   int64
	sum, exact hash.Hash
	out        survey
}

func (s *surveyor) entry(at int, name, rel string, st *unix.Stat_t) error {
	if s.out.files++; s.out.files > s.maxFiles {
		return errTooMany
	}
	mode := uint32(st.Mode)
	line := fmt.Sprintf("%q %o", rel, mode)
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		if s.out.bytes += st.Size; s.out.bytes > s.maxBytes {
			return errTooBig
		}
		if s.out.probe == "" && st.Size > 0 {
			s.out.probe = rel
		}
		// Not every file system keeps nanoseconds.
		line += fmt.Sprintf(" %d %d.%06d", st.Size, int64(st.Mtim.Sec), int64(st.Mtim.Nsec)/1000)
	case unix.S_IFLNK:
		to, err := readlinkat(at, name)
		if err != nil {
			return err
		}
		line = fmt.Sprintf("%q link %q", rel, to)
	case unix.S_IFDIR:
	default:
		s.out.odd = append(s.out.odd, rel)
		return nil
	}
	fmt.Fprintln(s.sum, line)
	if mode&unix.S_IFMT == unix.S_IFDIR {
		fmt.Fprintln(s.exact, line, st.Ino)
		return s.directory(at, name, rel)
	}
	fmt.Fprintln(s.exact, line, st.Ino, int64(st.Ctim.Sec), int64(st.Ctim.Nsec))
	return nil
}

func (s *surveyor) directory(at int, name, rel string) error {
	fd, err := openDir(at, name)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		var st unix.Stat_t
		err := unix.Fstatat(fd, n, &st, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "lstat", Path: rel + "/" + n, Err: err}
		}
		if uint64(st.Dev) != s.dev {
			return errMount
		}
		if err := s.entry(fd, n, path.Join(rel, n), &st); err != nil {
			return err
		}
	}
	return nil
}
