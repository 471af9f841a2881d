package practice

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// lines returns a writer for progress that several clusters may use at once.
func lines(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return &lineWriter{w: w}
}

type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// say writes one line of progress, in one write.
func say(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "practice: "+format+"\n", args...)
}

// seconds is how long ago that was, as people count.
func seconds(since time.Time) time.Duration { return time.Since(since).Round(time.Second) }
