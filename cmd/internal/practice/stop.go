package practice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	killAfter = 5 * time.Second // between asking a process and killing it
	killWait  = 5 * time.Second // for the kernel to end what was killed
	stopPoll  = 20 * time.Millisecond
)

// Stop ends the clusters in dir, which may be empty for [DefaultDir], and
// removes the directory. It is no error if nothing runs; progress says so.
func Stop(ctx context.Context, dir string, progress io.Writer) error {
	if progress == nil {
		progress = io.Discard
	}
	dir, err := absDir(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		say(progress, "nothing is running in %s", dir)
		return nil
	}
	unlock, err := lock(ctx, filepath.Join(dir, lockName), nil)
	if err != nil {
		return fmt.Errorf("stop the practice clusters: %w", err)
	}
	defer unlock()
	s, err := load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		say(progress, "nothing is running in %s", dir)
		return removeDir(dir)
	}
	if err != nil {
		return err
	}
	for _, c := range s.Clusters {
		if c.Alive() {
			say(progress, "stopping %s", c.Name)
		} else {
			say(progress, "%s was not running any more", c.Name)
		}
	}
	return s.end(ctx)
}

// Stop ends the clusters and removes their directory. Stopping twice is fine.
func (s *State) Stop(ctx context.Context) error {
	if err := Stop(ctx, s.Dir, s.opts.Progress); err != nil {
		return err
	}
	s.reap()
	return nil
}

// reap waits for the goroutines that wait for this process's children, which
// have ended.
func (s *State) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.running {
		for _, p := range c.programs {
			<-p.done
		}
	}
}

// end stops the processes of all clusters and removes the directory. The
// caller holds its lock.
func (s *State) end(ctx context.Context) error {
	var all []Process
	for _, c := range s.Clusters {
		all = append(all, c.Processes...)
	}
	if err := endProcesses(ctx, all); err != nil {
		return err
	}
	s.reap()
	return removeDir(s.Dir)
}

// endProcesses asks the processes to end and kills those that have not after a
// while. Processes that are gone, or whose number is another's now, are left.
func endProcesses(ctx context.Context, all []Process) error {
	signalAll(all, terminate)
	if awaitGone(ctx, all, killAfter) {
		return nil
	}
	signalAll(all, kill)
	if awaitGone(ctx, all, killWait) {
		return nil
	}
	for _, p := range all {
		if p.Alive() {
			return fmt.Errorf("%s (process %d) does not end: %w", p.Name, p.PID, errors.Join(ctx.Err(), errStubborn))
		}
	}
	return nil
}

var errStubborn = errors.New("still there after it was killed")

func signalAll(all []Process, signal func(Process) error) {
	for _, p := range all {
		if p.Alive() {
			// Whether it worked shows when the process is gone or not.
			_ = signal(p)
		}
	}
}

// awaitGone reports whether all processes ended within the time given.
func awaitGone(ctx context.Context, all []Process, within time.Duration) bool {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	poll := time.NewTicker(stopPoll)
	defer poll.Stop()
	for {
		if !anyAlive(all) {
			return true
		}
		select {
		case <-poll.C:
		case <-timeout.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func anyAlive(all []Process) bool {
	for _, p := range all {
		if p.Alive() {
			return true
		}
	}
	return false
}

// prepareDir makes the directory for new clusters, locks it, and cleans up
// after clusters that have died in it.
func prepareDir(ctx context.Context, opts Options) (unlock func(), err error) {
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, err
	}
	unlock, err = lock(ctx, filepath.Join(opts.Dir, lockName), nil)
	if err != nil {
		return nil, fmt.Errorf("start practice clusters: %w", err)
	}
	if err := clearDir(ctx, opts); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

func clearDir(ctx context.Context, opts Options) error {
	old, err := load(opts.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return refuseForeign(opts.Dir)
	}
	if err != nil {
		return err
	}
	var all []Process
	for _, c := range old.Clusters {
		if c.Alive() && !old.abandoned() {
			return fmt.Errorf("%w in %s (%s): stop them first", ErrRunning, opts.Dir, c.Name)
		}
		all = append(all, c.Processes...)
	}
	say(opts.Progress, "cleaning up what was left in %s", opts.Dir)
	if err := endProcesses(ctx, all); err != nil {
		return err
	}
	return removeContents(opts.Dir)
}

// refuseForeign keeps a mistyped directory from being taken over, and later
// removed.
func refuseForeign(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != lockName {
			return fmt.Errorf("%s is not empty and holds no practice clusters: choose another directory", dir)
		}
	}
	return nil
}

// removeContents removes what Start makes in dir except the lock. The state
// goes last: until then a failed removal can be repeated.
func removeContents(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	ours := []string{clustersName, kubeconfigName}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix) {
			ours = append(ours, e.Name())
		}
	}
	for _, name := range append(ours, stateName) {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// removeDir removes what Start made, and dir itself unless somebody keeps
// something of their own in it.
func removeDir(dir string) error {
	if err := removeContents(dir); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, lockName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		return err
	}
	return os.Remove(dir)
}
