package practice

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// Wait blocks while all the clusters run. It returns nil when ctx ends, and an
// error with the last lines of the log when a cluster ends by itself; the
// others still run then. Only the process that started the clusters can wait.
func (s *State) Wait(ctx context.Context) error {
	ended := make(chan error, 1)
	done := make(chan struct{})
	defer close(done)
	s.mu.Lock()
	for _, c := range s.Clusters {
		r := s.running[c.Name]
		if r == nil {
			s.mu.Unlock()
			return errors.New("only the process that started the clusters can wait for them")
		}
		for _, p := range r.programs {
			go func() {
				select {
				case <-p.done:
					select {
					case ended <- fmt.Errorf("%s: %s ended (%v)%s", c.Name, p.name, p.err, tail(c.Log())):
					default:
					}
				case <-done:
				}
			}()
		}
	}
	s.mu.Unlock()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Restart ends one cluster's programs at once, as a crash would, and starts
// them again on the same address with the same data. It returns when the
// cluster is of use again. Only the process that started the clusters, and
// still owns them, can do this; it is for tests of what survives an outage.
func (s *State) Restart(ctx context.Context, name string) error {
	i, old, err := s.owned(name)
	if err != nil {
		return fmt.Errorf("restart %s: %w", name, err)
	}
	begun := time.Now()
	signalAll(s.Clusters[i].Processes, kill)
	for _, p := range old.programs {
		<-p.done
	}
	address, err := url.Parse(s.Clusters[i].Server)
	if err != nil {
		return fmt.Errorf("restart %s: %w", name, err)
	}
	listener, err := listen(ctx, address.Host)
	if err != nil {
		return fmt.Errorf("restart %s: %w", name, err)
	}
	defer listener.Close()
	if err := s.run(i, old.creds, listener); err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, s.opts.ReadyTimeout)
	defer cancel()
	return s.await(ready, i, begun)
}

func (s *State) owned(name string) (int, *cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range s.Clusters {
		if c.Name == name && s.opts.Owned && s.running[name] != nil {
			return i, s.running[name], nil
		}
	}
	return 0, nil, errors.New("this process owns no such cluster")
}
