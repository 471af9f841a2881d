package practice

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// errLocked is returned by lock if somebody else holds it and wait is nil.
var errLocked = errors.New("in use by another rutter process")

// lock takes the file lock at path and returns how to give it back. If another
// process holds it, lock fails with errLocked, or, with a wait function, calls
// that every few seconds until it gets the lock or ctx ends.
func lock(ctx context.Context, path string, wait func()) (unlock func(), err error) {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for n := 0; ; n++ {
		f, err := openLocked(path)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, errLocked) || wait == nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if n%lockReport == 0 {
			wait()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

const (
	lockPoll   = 250 * time.Millisecond
	lockReport = 40 // polls between two calls of wait: ten seconds
)

func openLocked(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	got, err := tryLock(f)
	if err == nil && !got {
		err = errLocked
	}
	if err == nil && !sameFile(f, path) {
		// The former holder has removed the file: this lock means nothing.
		f.Close()
		return openLocked(path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func sameFile(f *os.File, path string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(path)
	return err == nil && os.SameFile(held, now)
}
