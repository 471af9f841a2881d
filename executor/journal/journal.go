// Package journal is the record of a run: what it was, what it did, and what
// was under way when it ended, however it ended.
//
// A [Writer] appends records to a file in a directory of its own, one JSON
// value a line, and has them on disk before the run goes on where that
// matters. [Open] reads such a directory into a [Run], tolerating a last line
// that was cut short, and [Reopen] goes on with it. The package does nothing
// to a cluster.
package journal

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// The files of a run's directory.
const (
	recordsFile = "journal.jsonl"
	lockFile    = "lock"
)

// NewID returns an ID that sorts by time and says which runbook ran.
func NewID(now time.Time, runbook string) (string, error) { return newID(now, runbook, rand.Reader) }

func newID(now time.Time, runbook string, random io.Reader) (string, error) {
	var salt [3]byte
	if _, err := io.ReadFull(random, salt[:]); err != nil {
		return "", fmt.Errorf("make an ID: %w", err)
	}
	return now.UTC().Format("20060102-150405") + "-" + fileName(runbook) + "-" + hex.EncodeToString(salt[:]), nil
}

// fileName keeps what is safe in the name of a directory anywhere.
func fileName(s string) string {
	out := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(s))
	return out[:min(len(out), 60)]
}

// Writer appends to the journal of one run. It is safe for concurrent use.
type Writer struct {
	id   string
	now  func() time.Time
	lock *os.File

	mu      sync.Mutex // guards the fields below
	file    *os.File
	seq     int
	writes  int
	written int64
	broken  error // the file may end in half a line: nothing more is written

	syncing sync.Mutex // held while the file is put on disk
	synced  int64      // guarded by syncing
}

// Create makes the directory of a run below root and writes its first record.
// The directory and the file are for the user alone.
func Create(root string, start RunStart, now func() time.Time) (*Writer, error) {
	if !isID(start.ID) {
		return nil, fmt.Errorf("record the run: %q is no ID", start.ID)
	}
	dir := filepath.Join(root, start.ID)
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("record the run: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("record the run: %w", err)
	}
	lock, err := own(dir, now())
	if err != nil {
		return nil, fmt.Errorf("record the run: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, recordsFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("record the run: %w", err), lock.Close())
	}
	w := &Writer{id: start.ID, now: now, lock: lock, file: file}
	if err := errors.Join(w.durable(Record{Start: &start}), syncDir(dir), syncDir(root)); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// isID reports whether s can name a run's directory, and nothing else.
func isID(s string) bool {
	return s != "" && s == filepath.Base(s) && s[0] != '.' && !strings.ContainsAny(s, `/\`)
}

// Reopen goes on with a run that no process has open: it cuts off a last line
// that is not whole, records that the run is resumed, and returns the run as it
// was before that.
func Reopen(dir string, resume RunResume, now func() time.Time) (*Writer, *Run, error) {
	if _, err := os.Stat(filepath.Join(dir, recordsFile)); err != nil {
		return nil, nil, fmt.Errorf("resume the run: %w", err)
	}
	before, err := Open(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("resume the run: %w", err)
	}
	if before.Alive {
		return nil, nil, fmt.Errorf("resume the run: %w: %s", ErrAlive, before.Owner)
	}
	lock, err := own(dir, now())
	if err != nil {
		return nil, nil, fmt.Errorf("resume the run: %w", err)
	}
	w, run, err := reopen(dir, now)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("resume the run: %w", err), lock.Close())
	}
	w.lock, run.Owner, run.Alive = lock, before.Owner, false
	if err := w.durable(Record{Resume: &resume}); err != nil {
		return nil, nil, errors.Join(err, w.Close())
	}
	return w, run, nil
}

// reopen is Reopen under the lock: another process may have had it before.
func reopen(dir string, now func() time.Time) (*Writer, *Run, error) {
	run, err := Open(dir)
	if err != nil {
		return nil, nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, recordsFile), os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(file.Truncate(run.whole), file.Sync()); err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	w := &Writer{id: run.Start.ID, now: now, file: file, seq: len(run.Records), writes: len(run.Writes), written: run.whole}
	return w, run, nil
}

// ID returns the ID of the run.
func (w *Writer) ID() string { return w.id }

// Close gives the journal up. A run that did not end can be told by it.
func (w *Writer) Close() error { return errors.Join(w.file.Close(), w.lock.Close()) }

// append writes a record and returns where it ends in the file.
func (w *Writer) append(r Record) (end int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.appendLocked(r)
}

func (w *Writer) appendLocked(r Record) (end int64, err error) {
	if w.broken != nil {
		return 0, w.broken
	}
	w.seq++
	r.Seq, r.Time = w.seq, w.now().UTC()
	line, err := json.Marshal(r)
	if err != nil {
		w.seq--
		return 0, fmt.Errorf("record the run: %w", err)
	}
	n, err := w.file.Write(append(line, '\n'))
	w.written += int64(n)
	if err != nil {
		w.broken = fmt.Errorf("record the run: %w", err)
		return 0, w.broken
	}
	return w.written, nil
}

// durable writes a record and returns when it is on disk. Writers that come
// at the same time share the wait.
func (w *Writer) durable(r Record) error {
	end, err := w.append(r)
	if err != nil {
		return err
	}
	return w.sync(end)
}

func (w *Writer) sync(end int64) error {
	w.syncing.Lock()
	defer w.syncing.Unlock()
	if w.synced >= end {
		return nil
	}
	w.mu.Lock()
	written := w.written
	w.mu.Unlock()
	if err := w.file.Sync(); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.broken = fmt.Errorf("record the run: %w", err)
		return w.broken
	}
	w.synced = written
	return nil
}

// StepStart records that a step begins.
func (w *Writer) StepStart(s StepStart) error {
	_, err := w.append(Record{Step: &s})
	return err
}

// StepEnd records how a step ended; it is on disk when it returns.
func (w *Writer) StepEnd(s StepEnd) error { return w.durable(Record{StepEnd: &s}) }

// Approval records a question and its answer.
func (w *Writer) Approval(a Approval) error {
	_, err := w.append(Record{Approval: &a})
	return err
}

// Intent records a write that is about to be sent and returns its number. It is
// on disk when it returns.
func (w *Writer) Intent(i Intent) (int, error) {
	w.mu.Lock()
	w.writes++
	i.Write = w.writes
	end, err := w.appendLocked(Record{Intent: &i})
	w.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return i.Write, w.sync(end)
}

// Note records something else that is worth keeping.
func (w *Writer) Note(n Note) error {
	_, err := w.append(Record{Note: &n})
	return err
}

// Outcome records how a write ended. It is on disk when it returns.
func (w *Writer) Outcome(o WriteOutcome) error { return w.durable(Record{Outcome: &o}) }

// End records how the run ended.
func (w *Writer) End(e RunEnd) error { return w.durable(Record{End: &e}) }

// ErrNotFound means that there is no such run.
var ErrNotFound = fs.ErrNotExist

// ErrAlive means that a process has the run open.
var ErrAlive = errors.New("the run is still going on")
