package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/superloop/superloop/loop/layout"

	"github.com/urfave/cli/v2"
)

func (a *app) logs(c *cli.Context) error {
	id, paths, err := a.theLoop(c)
	if err != nil {
		return err
	}
	file, err := newestLog(paths, c.String("role"), c.Int("iteration"))
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && c.Bool("follow")) {
		if errors.Is(err, fs.ErrNotExist) {
			return failf(exitNothing, "superloop events --loop "+id+" --event 'role_*'", "there is no such log in %s", paths.File("logs"))
		}
		return err
	}
	if c.Bool("path") {
		fmt.Fprintln(a.stdout, file)
		return nil
	}
	if !c.Bool("follow") {
		return a.copyFrom(file, nil)
	}
	return a.followLogs(c.Context, paths, c.String("role"), c.Int("iteration"), file)
}

// newestLog is the log that was written to last among those asked for.
func newestLog(p layout.Paths, role string, iteration int) (string, error) {
	if role == "tests" && iteration == 0 {
		file := p.File("test-output.txt")
		_, err := os.Stat(file)
		return file, err
	}
	dirs, err := os.ReadDir(p.File("logs"))
	if err != nil {
		return "", err
	}
	best, at := "", time.Time{}
	for _, d := range dirs {
		n, err := strconv.Atoi(strings.TrimPrefix(d.Name(), "iter-"))
		if err != nil || (iteration > 0 && n != iteration) {
			continue
		}
		files, err := os.ReadDir(p.Logs(n))
		if err != nil {
			return "", err
		}
		for _, f := range files {
			name := f.Name()
			if !strings.HasSuffix(name, ".log") || (role != "" && name != role+".log" && !strings.HasPrefix(name, role+".")) {
				continue
			}
			if info, err := f.Info(); err == nil && !info.ModTime().Before(at) {
				best, at = filepath.Join(p.Logs(n), name), info.ModTime()
			}
		}
	}
	if best == "" {
		return "", fs.ErrNotExist
	}
	return best, nil
}

// copyFrom prints a file, from where *at says, and leaves *at at its end.
func (a *app) copyFrom(file string, at *int64) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if at != nil {
		if info, err := f.Stat(); err == nil && info.Size() < *at {
			*at = 0 // it was begun anew
		}
		if _, err := f.Seek(*at, io.SeekStart); err != nil {
			return err
		}
	}
	n, err := io.Copy(a.stdout, f)
	if at != nil {
		*at += n
	}
	return err
}

// followLogs prints what is added, and goes over to the next log when another
// role begins. A log grows many times a second, so it is looked at four times.
func (a *app) followLogs(ctx context.Context, p layout.Paths, role string, iteration int, file string) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	var at int64
	for {
		if file != "" {
			if err := a.copyFrom(file, &at); err != nil {
				return err
			}
		}
		if newest, err := newestLog(p, role, iteration); err == nil && newest != file {
			file, at = newest, 0
			fmt.Fprintf(a.stderr, "==> %s\n", file)
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
