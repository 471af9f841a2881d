//go:build unix

package journal

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockPatience is how long to wait for a lock: a process that only looks
// whether a run is alive holds it for a moment.
const lockPatience = 200 * time.Millisecond

// takeLock locks a file for as long as it is open: the kernel lets go of it
// when the process ends, however it ends.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockPatience); ; {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EINTR) && (!errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline)) {
			return nil, errors.Join(fmt.Errorf("%s: %w: %w", path, ErrAlive, err), f.Close())
		}
		<-time.After(lockPatience / 20)
	}
}

// held reports whether a process has the lock.
func held(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// syncDir puts the entries of a directory on disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
