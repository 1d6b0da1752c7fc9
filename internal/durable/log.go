package durable

import (
	"errors"
	"io/fs"
	"os"
	"sync"
)

// maxLog is the size beyond which a log is set aside, in bytes.
const maxLog = 8 << 20

// OpenLog opens a log that another process is going to append to. If the log is larger than 8 MiB, it becomes path.1, and
// path.1 becomes path.2, whose content goes. Steps: rename for each of them, open.
func (d Disk) OpenLog(path string) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && info.Size() > maxLog {
		if err := d.setAside(path); err != nil {
			return nil, err
		}
	}
	return d.open("log", "open", path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
}

func (d Disk) setAside(path string) error {
	if err := d.Move("log", path+".1", path+".2"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.Move("log", path, path+".1")
}

// Log is a log that this process alone appends to, for as long as it runs. When it is larger than 8 MiB, it is set aside
// as by OpenLog. Several goroutines may use it.
type Log struct {
	d      Disk
	path   string
	opened func(*os.File)

	mu   sync.Mutex
	file *os.File
	size int64
}

// GrowLog opens a log. It calls opened with each file that it opens; the file is closed after the next call.
func (d Disk) GrowLog(path string, opened func(*os.File)) (*Log, error) {
	l := &Log{d: d, path: path, opened: opened}
	return l, l.open()
}

// open opens the file at path and closes the one before.
func (l *Log) open() error {
	f, err := l.d.OpenLog(l.path)
	if err != nil {
		return err
	}
	was := l.file
	l.file, l.size = f, 0
	if info, err := f.Stat(); err == nil {
		l.size = info.Size()
	}
	l.opened(f)
	if was != nil {
		_ = was.Close() // it was not flushed before either
	}
	return nil
}

// Write implements io.Writer. A log that cannot be set aside goes on to grow. Steps: write, and those of OpenLog.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > maxLog {
		_ = l.open() // the next write tries again
	}
	n, err := l.d.write(l.file.Write, "log", "write", l.path, p)
	l.size += int64(n)
	return n, err
}

// Close closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
