package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Run is what a journal says about a run.
type Run struct {
	Dir     string
	Start   RunStart
	Started time.Time
	// Last is the time of the last record.
	Last    time.Time
	Records []Record
	// End is nil if the run did not end, or not yet.
	End *RunEnd
	// Alive is set while a process has the run open; Owner is that process, or
	// the one that had it last.
	Alive bool
	Owner Owner
	// Torn is set if the last line was cut short, which is what a kill during
	// a write leaves.
	Torn   bool
	Writes []Write

	whole int64 // bytes of the whole lines
}

// Unsettled returns the writes of which the journal does not say whether they
// were done: those under way when it ends, and those without a clear answer.
func (r *Run) Unsettled() []Write {
	var ws []Write
	for _, w := range r.Writes {
		if w.State == WriteUnknown || w.State == WriteUnderWay {
			ws = append(ws, w)
		}
	}
	return ws
}

// WriteState is what is known of a write.
type WriteState string

// The states of writes.
const (
	WriteDone     WriteState = "done"
	WriteFailed   WriteState = "failed"
	WriteUnknown  WriteState = "unknown"   // the answer never came
	WriteUnderWay WriteState = "under way" // the record ends before the answer
)

// Write is a write of a run, from its intent and its outcome.
type Write struct {
	Intent  Intent
	Time    time.Time
	State   WriteState
	Outcome WriteOutcome
}

// State is a word for how the run stands.
func (r *Run) State() string {
	switch {
	case r.End != nil:
		return r.End.Outcome
	case r.Alive:
		return "running"
	}
	return "broken off"
}

// Open reads the journal in a run's directory. A last line that was cut short
// is left out; anything else that is wrong is an error with its line.
func Open(dir string) (*Run, error) {
	f, err := os.Open(filepath.Join(dir, recordsFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	r.Dir = dir
	r.Alive, r.Owner = held(filepath.Join(dir, lockFile)), owner(dir)
	return r, nil
}

// read reads records from anywhere.
func read(from io.Reader) (*Run, error) {
	r := &Run{}
	in := bufio.NewReaderSize(from, 1<<16)
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// Only a whole line was acknowledged to the run.
			r.Torn = len(bytes.TrimSpace(text)) > 0
			break
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		var rec Record
		if err := json.Unmarshal(text, &rec); err != nil {
			// A machine that loses power may keep the end of a line and lose its
			// middle. Nobody was told that it is recorded.
			if _, more := in.Peek(1); errors.Is(more, io.EOF) && !json.Valid(text) {
				r.Torn = true
				break
			}
			return nil, fmt.Errorf("line %d is no record: %w", line, err)
		}
		if err := r.add(rec); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		r.whole += int64(len(text))
	}
	if len(r.Records) == 0 {
		return nil, errors.New("there is no whole record in it")
	}
	return r, nil
}

func (r *Run) add(rec Record) error {
	if rec.Seq != len(r.Records)+1 {
		return fmt.Errorf("record %d stands where %d should", rec.Seq, len(r.Records)+1)
	}
	if (rec.Start != nil) != (rec.Seq == 1) {
		return errors.New("the first record, and no other, says what the run is")
	}
	if rec.kinds() > 1 {
		return errors.New("it is more than one record")
	}
	r.Records = append(r.Records, rec)
	r.Last = rec.Time
	switch {
	case rec.Start != nil:
		r.Start, r.Started = *rec.Start, rec.Time
	case rec.Intent != nil:
		if rec.Intent.Write != len(r.Writes)+1 {
			return fmt.Errorf("write %d is recorded where %d should be", rec.Intent.Write, len(r.Writes)+1)
		}
		r.Writes = append(r.Writes, Write{Intent: *rec.Intent, Time: rec.Time, State: WriteUnderWay})
	case rec.Outcome != nil:
		return r.outcome(*rec.Outcome)
	case rec.End != nil:
		r.End = rec.End
	case rec.Resume != nil:
		r.End = nil
	}
	return nil
}

func (r *Run) outcome(o WriteOutcome) error {
	if o.Write < 1 || o.Write > len(r.Writes) {
		return fmt.Errorf("there is no write %d", o.Write)
	}
	w := &r.Writes[o.Write-1]
	w.Outcome = o
	switch {
	case o.Unknown:
		w.State = WriteUnknown
	case o.Error != "":
		w.State = WriteFailed
	default:
		w.State = WriteDone
	}
	return nil
}

// List reads all runs below root, newest first, without the objects and bodies
// of their writes; [Open] reads those of one run. Directories that are no runs
// are left out; runs that cannot be read are returned as errors beside the
// others. A root that is not there has no runs.
func List(root string) ([]*Run, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var runs []*Run
	var errs []error
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		r, err := Open(filepath.Join(root, e.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.slim()
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b *Run) int { return strings.Compare(b.Start.ID, a.Start.ID) })
	return runs, errors.Join(errs...)
}

// slim drops what takes memory.
func (r *Run) slim() {
	for i := range r.Writes {
		r.Writes[i].Intent.Before, r.Writes[i].Intent.Body = nil, nil
	}
	for _, rec := range r.Records {
		if rec.Intent != nil {
			rec.Intent.Before, rec.Intent.Body = nil, nil
		}
	}
}

// Find opens the run whose ID is id, or begins or ends with it; "last" is the
// newest.
func Find(root, id string) (*Run, error) {
	if isID(id) {
		if r, err := Open(filepath.Join(root, id)); err == nil {
			return r, nil
		}
	}
	runs, err := List(root)
	var found []*Run
	for _, r := range runs {
		if id != "" && (strings.HasPrefix(r.Start.ID, id) || strings.HasSuffix(r.Start.ID, id)) {
			found = append(found, r)
		}
	}
	switch {
	case id == "last" && len(runs) > 0:
		return Open(runs[0].Dir)
	case len(found) == 1:
		return Open(found[0].Dir)
	case len(found) > 1:
		return nil, fmt.Errorf("%q is the beginning or the end of %d runs; say more of it", id, len(found))
	}
	return nil, errors.Join(fmt.Errorf("there is no run %q: %w", id, ErrNotFound), err)
}
