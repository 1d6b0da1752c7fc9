package local

import "context"

// flushWork makes the work of an effect survive a power cut, before the journal says that it is done: superloop never
// does it again. A shutdown does not wait for the disk.
func (d *driver) flushWork(shutdown context.Context) {
	if err := d.repo.FlushAll(shutdown); shutdown.Err() == nil {
		d.host.Warn("what was done last may not survive a power cut", err)
	}
}
