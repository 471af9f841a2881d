package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// crashEnv makes the test binary write a journal until it is killed.
const crashEnv = "JOURNAL_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashEnv); dir != "" {
		fmt.Println(writeForever(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

var noon = time.Date(2026, 12, 1, 14, 30, 15, 0, time.UTC)

func at() time.Time { return noon }

func start(id string) RunStart {
	return RunStart{
		ID: id, Runbook: "force-unpeer", Title: "Force unpeer", Digest: "abc", Source: "kind: Runbook\n",
		Inputs: map[string]any{"clusterID": "milan"}, Clusters: map[string]Cluster{"local": {Context: "a/../..", UID: "u"}}, Version: "dev",
	}
}

func create(t *testing.T, root, id string) *Writer {
	t.Helper()
	w, err := Create(root, start(id), at)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func intent(t *testing.T, w *Writer, name string) int {
	t.Helper()
	n, err := w.Intent(Intent{
		Step: "drop", Role: "local", Op: "delete", Resource: "pods", Namespace: "demo", Name: name,
		Before: Content{"metadata": map[string]any{"name": name}, "spec": map[string]any{"big": int64(9007199254740993)}},
	})
	must(t, err)
	return n
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	root := t.TempDir()
	w := create(t, root, "run-1")
	must(t, w.StepStart(StepStart{"drop", "Drop"}), w.Approval(Approval{"drop", "Drop it?", true, "asked"}), w.Note(Note{"drop", "slow"}))
	for i, o := range []WriteOutcome{{UID: "u1", ResourceVersion: "7"}, {Error: "conflict"}, {Error: "no answer", Unknown: true}} {
		o.Write = intent(t, w, fmt.Sprint("p", i))
		must(t, w.Outcome(o))
	}
	intent(t, w, "p3")
	must(t, w.StepEnd(StepEnd{ID: "drop", Status: "failed", Outputs: map[string]any{"n": 1.5}, Findings: []Finding{{"warn", "m", "f"}}, Seconds: 2}))

	dir := filepath.Join(root, "run-1")
	r, err := Open(dir)
	must(t, err)
	if !r.Alive || r.Owner.PID != os.Getpid() || r.State() != "running" || r.Torn {
		t.Errorf("alive %t, owner %v, state %q, torn %t; want a run of this process", r.Alive, r.Owner, r.State(), r.Torn)
	}
	must(t, w.End(RunEnd{Outcome: "failed"}), w.Close())
	if r, err = Open(dir); err != nil || r.Alive || r.State() != "failed" {
		t.Errorf("after the end: %v, alive %t, state %q", err, r.Alive, r.State())
	}
	var states []WriteState
	for _, w := range r.Writes {
		states = append(states, w.State)
	}
	if diff := cmp.Diff([]WriteState{WriteDone, WriteFailed, WriteUnknown, WriteUnderWay}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if n := len(r.Unsettled()); n != 2 {
		t.Errorf("%d unsettled, want 2", n)
	}
	if diff := cmp.Diff(start("run-1"), r.Start); diff != "" {
		t.Errorf("start (-want +got):\n%s", diff)
	}
	if got := r.Writes[0].Intent.Before["spec"].(map[string]any)["big"]; got != int64(9007199254740993) {
		t.Errorf("a large number became %v (%T)", got, got)
	}
	if got := r.Writes[0].Intent.Object(); got != "demo/pods/p0" {
		t.Errorf("object %q", got)
	}
}

func TestFilesAreForTheUserAlone(t *testing.T) {
	root := filepath.Join(t.TempDir(), "runs")
	must(t, create(t, root, "run-1").Close())
	want := map[string]fs.FileMode{".": 0o700, "run-1": 0o700, "run-1/journal.jsonl": 0o600, "run-1/lock": 0o600}
	got := map[string]fs.FileMode{}
	must(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		got[filepath.ToSlash(rel)] = info.Mode().Perm()
		return err
	}))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("modes (-want +got):\n%s", diff)
	}
}

func TestIDs(t *testing.T) {
	for name, want := range map[string]string{
		"force-unpeer":                   "20261201-143015-force-unpeer-070707",
		"../../etc/passwd":               "20261201-143015-------etc-passwd-070707",
		`a\b:c é`:                        "20261201-143015-a-b-c---070707",
		strings.Repeat("x", 300):         "20261201-143015-" + strings.Repeat("x", 60) + "-070707",
		strings.Repeat("é", 40) + "\x00": "20261201-143015-" + strings.Repeat("-", 41) + "-070707",
	} {
		got, err := newID(noon, name, bytes.NewReader([]byte{7, 7, 7}))
		if err != nil || got != want || !isID(got) {
			t.Errorf("%q: %q, %v; want %q", name, got, err, want)
		}
	}
	for _, id := range []string{"", ".", "..", "../x", "a/b", `a\b`, "/", ".hidden"} {
		if _, err := Create(t.TempDir(), start(id), at); err == nil {
			t.Errorf("Create took the ID %q", id)
		}
		if _, err := Find(t.TempDir(), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("Find %q: %v, want not found", id, err)
		}
	}
	root := t.TempDir()
	must(t, create(t, root, "run-1").Close())
	if _, err := Create(root, start("run-1"), at); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the same ID twice: %v", err)
	}
}

func TestTornLines(t *testing.T) {
	whole := record(t, Record{Seq: 1, Start: &RunStart{ID: "r"}})
	for _, tt := range []struct {
		name, text, err string
		torn            bool
	}{
		{"whole", whole, "", false},
		{"half a line", whole + `{"seq":2,"ti`, "", true},
		{"zeros", whole + "\x00\x00\x00", "", true},
		{"zeros and an end", whole + "\x00\x00}\n", "", true},
		{"broken in the middle", whole + "nonsense\n" + whole, "line 2 is no record", false},
		{"a gap", whole + record(t, Record{Seq: 3, Note: &Note{}}), "line 2: record 3", false},
		{"two starts", whole + record(t, Record{Seq: 2, Start: &RunStart{}}), "line 2", false},
		{"an outcome of nothing", whole + record(t, Record{Seq: 2, Outcome: &WriteOutcome{Write: 1}}), "line 2: there is no write 1", false},
		{"two at once", whole + record(t, Record{Seq: 2, Note: &Note{}, End: &RunEnd{}}), "line 2: it is more than one", false},
		{"nothing", "", "no whole record", false},
		{"half a start", whole[:20], "no whole record", false},
	} {
		r, err := read(strings.NewReader(tt.text))
		switch {
		case tt.err != "":
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
			}
		case err != nil || r.Torn != tt.torn || len(r.Records) != 1 || r.whole != int64(len(whole)):
			t.Errorf("%s: %+v, %v; want one record, torn %t", tt.name, r, err, tt.torn)
		}
	}
}

func record(t *testing.T, r Record) string {
	t.Helper()
	text, err := json.Marshal(r)
	must(t, err)
	return string(text) + "\n"
}

func TestReopen(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "run-1")
	w := create(t, root, "run-1")
	intent(t, w, "p0")
	if _, _, err := Reopen(dir, RunResume{}, at); !errors.Is(err, ErrAlive) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("reopen of a run that goes on: %v, want who has it", err)
	}
	must(t, w.End(RunEnd{Outcome: "interrupted"}), w.Close())
	f, err := os.OpenFile(filepath.Join(dir, recordsFile), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(`{"seq":4,"tim`)
	must(t, err, f.Close())

	w, before, err := Reopen(dir, RunResume{Version: "dev"}, at)
	must(t, err)
	if !before.Torn || len(before.Records) != 3 || before.Alive || before.Owner.PID != os.Getpid() {
		t.Errorf("before: %+v", before)
	}
	if n := intent(t, w, "p1"); n != 2 {
		t.Errorf("write %d, want 2", n)
	}
	must(t, w.Outcome(WriteOutcome{Write: 1}), w.Close())
	r, err := Open(dir)
	must(t, err)
	if r.Torn || r.End != nil || len(r.Records) != 6 || r.State() != "broken off" ||
		r.Writes[0].State != WriteDone || r.Writes[1].State != WriteUnderWay {
		t.Errorf("after: state %q, %+v", r.State(), r)
	}
	if _, _, err := Reopen(filepath.Join(root, "none"), RunResume{}, at); !errors.Is(err, ErrNotFound) {
		t.Errorf("reopen of nothing: %v", err)
	}
}

func TestListAndFind(t *testing.T) {
	root := t.TempDir()
	for _, id := range []string{"20260101-a-x1", "20260301-c-x3", "20260201-b-x2"} {
		w := create(t, root, id)
		intent(t, w, "p")
		must(t, w.Close())
	}
	must(t, os.Mkdir(filepath.Join(root, "other"), 0o700), os.WriteFile(filepath.Join(root, "file"), nil, 0o600),
		os.Mkdir(filepath.Join(root, "bad"), 0o700), os.WriteFile(filepath.Join(root, "bad", recordsFile), []byte("x\ny\n"), 0o600))
	runs, err := List(root)
	if err == nil || !strings.Contains(err.Error(), "bad") || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("error %v, want the bad run and its line", err)
	}
	var ids []string
	for _, r := range runs {
		ids = append(ids, r.Start.ID)
		if r.Writes[0].Intent.Before != nil {
			t.Errorf("%s: the list holds objects", r.Start.ID)
		}
	}
	if diff := cmp.Diff([]string{"20260301-c-x3", "20260201-b-x2", "20260101-a-x1"}, ids); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	for word, want := range map[string]string{"last": "20260301-c-x3", "x2": "20260201-b-x2", "20260101": "20260101-a-x1", "20260101-a-x1": "20260101-a-x1", "2026": "", "zzz": ""} {
		r, err := Find(root, word)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q found %s", word, r.Start.ID)
		case want != "" && (err != nil || r.Start.ID != want || r.Writes[0].Intent.Before == nil):
			t.Errorf("%q: %v, want %s as a whole", word, err, want)
		}
	}
	if runs, err := List(filepath.Join(root, "none")); len(runs) != 0 || err != nil {
		t.Errorf("no root: %v, %v", runs, err)
	}
}

func TestConcurrentWriters(t *testing.T) {
	root := t.TempDir()
	w := create(t, root, "run-1")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			n, err := w.Intent(Intent{Step: "drop", Name: fmt.Sprint(i)})
			if err != nil {
				t.Error(err)
			}
			if err := w.Outcome(WriteOutcome{Write: n, UID: fmt.Sprint(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	must(t, w.Close())
	r, err := Open(filepath.Join(root, "run-1"))
	must(t, err)
	for _, w := range r.Writes {
		if w.State != WriteDone || w.Outcome.UID != w.Intent.Name {
			t.Errorf("write %d of %s ended as that of %s, %s", w.Intent.Write, w.Intent.Name, w.Outcome.UID, w.State)
		}
	}
	if len(r.Writes) != 20 {
		t.Errorf("%d writes, want 20", len(r.Writes))
	}
}

func TestNothingIsWrittenAfterAFailure(t *testing.T) {
	w := create(t, t.TempDir(), "run-1")
	must(t, w.file.Close())
	for range 2 {
		if _, err := w.Intent(Intent{}); err == nil || !strings.Contains(err.Error(), "record the run") {
			t.Errorf("intent: %v, want an error", err)
		}
	}
	must(t, w.lock.Close())
}

// writeForever writes intents and outcomes, and says after each that it is
// recorded.
func writeForever(dir string) error {
	w, err := Create(filepath.Dir(dir), start(filepath.Base(dir)), time.Now)
	if err != nil {
		return err
	}
	fmt.Println("start")
	for {
		n, err := w.Intent(Intent{Step: "drop", Name: "p", Before: Content{"filler": strings.Repeat("x", rand.IntN(20000))}})
		if err != nil {
			return err
		}
		fmt.Println("intent", n)
		if err := w.Outcome(WriteOutcome{Write: n}); err != nil {
			return err
		}
		fmt.Println("outcome", n)
	}
}

// killer takes a process's output and kills it once it has told enough, so that
// the moment does not depend on how busy the machine is.
type killer struct {
	text  bytes.Buffer // not embedded: its ReadFrom would be used instead of Write
	after int
	kill  func()
}

func (k *killer) Write(p []byte) (int, error) {
	n, err := k.text.Write(p)
	if bytes.Count(k.text.Bytes(), []byte("\n")) >= k.after {
		k.kill()
	}
	return n, err
}

// A process that is killed at any moment leaves a journal that can be read and
// has everything that the process was told to be recorded.
func TestKilledWriters(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	root := t.TempDir()
	torn, total := 0, 0
	for i := range 15 {
		dir := filepath.Join(root, fmt.Sprintf("run-%d", i))
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), crashEnv+"="+dir)
		out := &killer{after: 1 + rand.IntN(60), kill: func() { _ = cmd.Process.Kill() }}
		cmd.Stdout = out
		must(t, cmd.Start())
		_ = cmd.Wait() // ends by the kill
		told := strings.Split(strings.TrimRight(out.text.String(), "\n"), "\n")
		r, err := Open(dir)
		if err != nil {
			t.Fatalf("after %d records: %v", len(told), err)
		}
		if r.Torn {
			torn++
		}
		total += len(told)
		if len(r.Records) < len(told) || len(r.Records) > len(told)+1 || r.Alive || r.State() != "broken off" {
			t.Errorf("%d records, %d told, state %q", len(r.Records), len(told), r.State())
		}
		if un := r.Unsettled(); len(un) > 1 || len(un) == 1 && un[0].Intent.Write != len(r.Writes) {
			t.Errorf("%d writes are unsettled, want the last one at most", len(un))
		}
		w, _, err := Reopen(dir, RunResume{}, at)
		must(t, err)
		must(t, w.End(RunEnd{Outcome: "done"}), w.Close())
		if r, err = Open(dir); err != nil || r.State() != "done" {
			t.Errorf("resumed: %v", err)
		}
	}
	t.Logf("%d records told, %d last lines torn", total, torn)
	if total == 0 {
		t.Error("no process ever wrote anything")
	}
}

func FuzzRead(f *testing.F) {
	lines := []Record{
		{Seq: 1, Start: &RunStart{ID: "r", Inputs: map[string]any{"a": 1.5}}},
		{Seq: 2, Step: &StepStart{ID: "s"}},
		{Seq: 3, Intent: &Intent{Write: 1, Before: Content{"a": []any{int64(1)}}, Body: json.RawMessage(`{"x":[1]}`)}},
		{Seq: 4, Outcome: &WriteOutcome{Write: 1, Unknown: true}},
		{Seq: 5, StepEnd: &StepEnd{ID: "s"}},
		{Seq: 6, End: &RunEnd{Outcome: "done"}},
		{Seq: 7, Resume: &RunResume{}},
	}
	var all []byte
	for _, l := range lines {
		text, err := json.Marshal(l)
		if err != nil {
			f.Fatal(err)
		}
		all = append(append(all, text...), '\n')
		f.Add(slices.Clone(all))
		f.Add(all[:len(all)-len(text)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := read(bytes.NewReader(data))
		if err != nil {
			return
		}
		// What was read is a journal too, and the same one.
		var again bytes.Buffer
		for i, rec := range r.Records {
			if rec.Seq != i+1 {
				t.Fatalf("record %d has the number %d", i+1, rec.Seq)
			}
			text, err := json.Marshal(rec)
			if err != nil {
				t.Fatal(err)
			}
			again.Write(append(text, '\n'))
		}
		second, err := read(&again)
		if err != nil {
			t.Fatalf("what was read is no journal when written: %v", err)
		}
		if len(second.Records) != len(r.Records) || len(second.Writes) != len(r.Writes) || second.State() != r.State() {
			t.Fatal("the second reading differs")
		}
		for i, w := range r.Writes {
			if w.State != second.Writes[i].State {
				t.Fatalf("write %d: %s and %s", i+1, w.State, second.Writes[i].State)
			}
		}
	})
}
