package fleetdrill

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// deploy replaces the build of the control worker while loops wait: they stay with the build that has begun them.
func deploy(w *world, loops, _ int) (string, error) {
	if err := w.stop("control"); err != nil {
		return "", err
	}
	if err := w.begin("control", 0, "--build", "old"); err != nil {
		return "", err
	}
	waiting, err := w.all(loops, 1, 0, approval)
	if err != nil {
		return "", err
	}
	if err := await(5*time.Minute, "all loops asked", func() bool {
		return !slices.ContainsFunc(waiting, func(d *drilled) bool { return d.status() != "awaiting_approval" })
	}); err != nil {
		return "", err
	}
	if err := w.begin("control", 0, "--build", "new"); err != nil {
		return "", err
	}
	if err := await(time.Minute, "the new build is ready", func() bool {
		log, _ := os.ReadFile(filepath.Join(w.top, "control.log"))
		return strings.Contains(string(log), `"build":"new"`)
	}); err != nil {
		return "", err
	}
	next, err := w.loop(1, 0, "")
	if err != nil {
		return "", err
	}
	if err := finished([]*drilled{next}, 1, time.Minute); err != nil {
		return "", err
	}
	if err := w.stop("control --build old"); err != nil {
		return "", err
	}
	if out, err := w.fleet("approve", "--repo", waiting[0].repo, "--loop", waiting[0].name); err == nil || !strings.Contains(out, "no control worker answers") {
		return "", fmt.Errorf("a loop of the old build was decided about without it: %v\n%s", err, out)
	}
	if err := w.begin("control", 0, "--build", "old"); err != nil { // it now says that new loops are to begin with it, too
		return "", err
	}
	for _, d := range waiting {
		if _, err := w.fleet("approve", "--repo", d.repo, "--loop", d.name); err != nil {
			return "", err
		}
	}
	if err := finished(waiting, 1, 5*time.Minute); err != nil {
		return "", err
	}
	for _, d := range append(waiting, next) {
		want := "old"
		if d == next {
			want = "new"
		}
		if out, err := w.build(d); err != nil || !strings.Contains(out, want) {
			return "", fmt.Errorf("%s was to stay with the build %s: %w\n%s", d.name, want, err, out)
		}
	}
	return fmt.Sprintf("%d loops that waited ended with the build that had begun them, a new one began with the new build, no history failed", loops), errors.Join(w.stop("control --build old"), w.stop("control --build new"))
}

// build returns what the server says of the build that runs a loop.
func (w *world) build(d *drilled) (string, error) {
	out, err := w.cmd("temporal", "workflow", "list", "--address", fmt.Sprint("127.0.0.1:", w.port()), "--output", "json").CombinedOutput()
	if err != nil {
		return string(out), err
	}
	for _, line := range strings.Split(string(out), "\n") {
		if _, id, ok := strings.Cut(line, `"workflowId": "`); ok && strings.HasSuffix(strings.TrimSuffix(strings.TrimSpace(id), `",`), "/"+d.name) {
			id = strings.TrimSuffix(strings.TrimSpace(id), `",`)
			said, err := w.cmd("temporal", "workflow", "describe", "--address", fmt.Sprint("127.0.0.1:", w.port()), "--workflow-id", id, "--output", "json").CombinedOutput()
			_, version, _ := strings.Cut(string(said), `"versioningInfo"`)
			return version[:min(len(version), 400)], err
		}
	}
	return string(out), fmt.Errorf("the server has no %s", d.name)
}

// stop ends a process of the fleet as an operator does.
func (w *world) stop(name string) error {
	c := w.procs[name]
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	delete(w.procs, name)
	if err := c.Wait(); err != nil {
		if _, ended := errors.AsType[*exec.ExitError](err); !ended {
			return err
		}
	}
	return nil
}
