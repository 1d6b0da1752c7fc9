package local

import "go.uber.org/zap"

// movedAside notes that something was in the way of a file of superloop, and was moved from path to to. The disk calls
// it in the middle of a write, so the event follows with tellMoved.
func (d *driver) movedAside(path, to string) {
	d.log.Warn("something that superloop did not make is in its way; it is moved aside",
		zap.String("path", path), zap.String("to", to))
	d.asideMu.Lock()
	defer d.asideMu.Unlock()
	d.aside = append(d.aside, [2]string{path, to})
}

// tellMoved writes an event for everything that was healed or moved aside since the last call.
func (d *driver) tellMoved() error {
	if err := d.tellHealed(); err != nil {
		return err
	}
	d.asideMu.Lock()
	moved := d.aside
	d.aside = nil
	d.asideMu.Unlock()
	for _, m := range moved {
		if err := d.record("moved_aside", map[string]any{"path": d.paths.Rel(m[0]), "to": d.paths.Rel(m[1])}); err != nil {
			return err
		}
	}
	return nil
}
