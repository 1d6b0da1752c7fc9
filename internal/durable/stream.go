package durable

import (
	"io/fs"
	"os"
)

// File is a file that is written from the beginning to the end, such as a log.
// It is for one goroutine at a time.
type File struct {
	d    Disk
	op   string
	file *os.File
}

// Create makes path, or empties it. What is written survives a kill; a power
// cut only after Sync, and the directory entry only if the caller flushes that.
//
// Steps: create.
func (d Disk) Create(op, path string, perm fs.FileMode) (*File, error) {
	f, err := d.open(op, "create", path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return nil, err
	}
	return &File{d: d, op: op, file: f}, nil
}

// Name is the path that the file was created with.
func (f *File) Name() string { return f.file.Name() }

// Write implements io.Writer. Steps: write.
func (f *File) Write(p []byte) (int, error) { return f.d.write(f.file, f.op, "write", p) }

// Sync makes what was written survive a power cut. Steps: sync.
func (f *File) Sync() error { return f.d.sync(f.file, f.op, "sync") }

// Close closes the file; it does not flush. Steps: close.
func (f *File) Close() error { return f.d.closeFile(f.file, f.op) }
