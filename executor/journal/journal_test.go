package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func clock() func() time.Time {
	t := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	return func() time.Time { return t }
}

func create(t *testing.T, root, id string) *Writer {
	t.Helper()
	w, err := Create(root, RunStart{ID: id, Runbook: "liqo/x", Digest: "d", Source: "s"}, clock())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestARunIsReadBackAsWritten(t *testing.T) {
	root := t.TempDir()
	w := create(t, root, "r1")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.StepStart(StepStart{ID: "drop", Title: "Drop it"}))
	must(w.Approval(Approval{Step: "drop", Question: "Sure?", Yes: true, How: "asked"}))
	var ids []int
	for i := range 4 {
		id, err := w.Intent(Intent{Step: "drop", Role: "local", Op: "delete", Resource: "pods", Namespace: "demo", Name: fmt.Sprint("p", i), Before: map[string]any{"a": "b"}})
		must(err)
		ids = append(ids, id)
	}
	must(w.Outcome(WriteOutcome{Write: ids[0], ResourceVersion: "7"}))
	must(w.Outcome(WriteOutcome{Write: ids[1], Error: "forbidden"}))
	must(w.Outcome(WriteOutcome{Write: ids[2], Error: "connection reset", Unknown: true}))
	run, err := Open(filepath.Join(root, "r1"))
	must(err)
	if !run.Alive || run.State() != "running" {
		t.Errorf("an open run: alive %t, %s", run.Alive, run.State())
	}
	must(w.StepEnd(StepEnd{ID: "drop", Status: "done", Outputs: map[string]any{"n": "x"}}))
	must(w.End(RunEnd{Outcome: "failed", Why: "because"}))
	must(w.Close())
	run, err = Open(filepath.Join(root, "r1"))
	must(err)
	var states []string
	for _, wr := range run.Writes {
		states = append(states, fmt.Sprintf("%s %s", wr.Intent.Object(), wr.State))
	}
	want := []string{"demo/pods/p0 done", "demo/pods/p1 failed", "demo/pods/p2 unknown", "demo/pods/p3 under way"}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if run.Alive || run.State() != "failed" || run.Torn || run.Start.Runbook != "liqo/x" {
		t.Errorf("got %+v", run)
	}
	info, err := os.Stat(filepath.Join(root, "r1", recordsFile))
	must(err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the journal can be read by others: %s", info.Mode())
	}
}

func TestATornLastLineIsLeftOutAndNothingElse(t *testing.T) {
	root := t.TempDir()
	w := create(t, root, "r1")
	if err := errors.Join(w.StepStart(StepStart{ID: "a"}), w.StepStart(StepStart{ID: "b"}), w.Close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "r1", recordsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range text {
		run, err := read(bytes.NewReader(text[:cut]))
		whole := strings.Count(string(text[:cut]), "\n")
		if whole == 0 {
			if err == nil {
				t.Errorf("cut at %d: read %d records of none", cut, len(run.Records))
			}
			continue
		}
		if err != nil || len(run.Records) != whole || run.Torn != (text[cut-1] != '\n') {
			t.Fatalf("cut at %d: %v, %+v", cut, err, run)
		}
	}
	lines := strings.SplitAfter(string(text), "\n")
	for _, tc := range []struct{ name, text, want string }{
		{"a broken line in the middle", lines[0] + "{\"seq\":\n" + lines[2], "line 2 is no record"},
		{"a line that is missing", lines[0] + lines[2], "line 2: record 3 stands where 2 should"},
		{"a line twice", lines[0] + lines[0], "line 2: record 1 stands where 2 should"},
	} {
		if _, err := read(strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestWritersShareTheFile(t *testing.T) {
	root := t.TempDir()
	w := create(t, root, "r1")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 20 {
				id, err := w.Intent(Intent{Step: "s", Op: "delete", Resource: "pods", Name: fmt.Sprint(i)})
				if err == nil {
					err = w.Outcome(WriteOutcome{Write: id})
				}
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	run, err := Open(filepath.Join(root, "r1"))
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Writes) != 160 {
		t.Errorf("got %d writes, want 160", len(run.Writes))
	}
	for _, wr := range run.Writes {
		if wr.State != WriteDone {
			t.Errorf("write %d is %s", wr.Intent.Write, wr.State)
		}
	}
}

func TestTheSameRunIsNotWrittenTwice(t *testing.T) {
	root := t.TempDir()
	w := create(t, root, "r1")
	defer w.Close()
	if _, err := Create(root, RunStart{ID: "r1"}, clock()); err == nil {
		t.Error("a run was recorded over another")
	}
	for _, id := range []string{"", "..", "a/b", ".hidden"} {
		if _, err := Create(root, RunStart{ID: id}, clock()); err == nil {
			t.Errorf("%q was taken as an ID", id)
		}
	}
}

func TestFindAndList(t *testing.T) {
	root := t.TempDir()
	if runs, err := List(filepath.Join(root, "none")); err != nil || len(runs) != 0 {
		t.Errorf("no directory: %v, %v", runs, err)
	}
	for _, id := range []string{"20260101-a-1111", "20260102-a-2222"} {
		if err := create(t, root, id).Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ id, want string }{
		{"20260101-a-1111", "20260101-a-1111"}, {"2222", "20260102-a-2222"}, {"last", "20260102-a-2222"}, {"20260101", "20260101-a-1111"},
		{"2026", ""}, {"x", ""}, {"", ""}, {"../r", ""},
	} {
		r, err := Find(root, tc.id)
		if tc.want == "" {
			if err == nil {
				t.Errorf("%q: got %s, want an error", tc.id, r.Start.ID)
			}
		} else if err != nil || r.Start.ID != tc.want {
			t.Errorf("%q: got %v, %v, want %s", tc.id, r, err, tc.want)
		}
	}
}

func TestNewIDIsAFileName(t *testing.T) {
	id, err := NewID(time.Date(2026, 12, 1, 14, 30, 15, 0, time.UTC), "liqo/../Force ünpeer")
	if err != nil || !strings.HasPrefix(id, "20261201-143015-liqo----force--npeer-") || id != filepath.Base(id) {
		t.Errorf("got %q, %v", id, err)
	}
}

// TestMain is also the program that TestKill kills.
func TestMain(m *testing.M) {
	if root := os.Getenv("JOURNAL_CRASH"); root != "" {
		crash(root)
		return
	}
	os.Exit(m.Run())
}

// crash writes for ever, and says on standard output what was acknowledged.
func crash(root string) {
	w, err := Create(root, RunStart{ID: "r", Source: strings.Repeat("x", 2000)}, time.Now)
	for i := 0; err == nil; i++ {
		var id int
		if id, err = w.Intent(Intent{Step: "s", Op: "delete", Resource: "pods", Name: strings.Repeat("n", i%500)}); err != nil {
			break
		}
		fmt.Printf("intent %d\n", id)
		if err = w.Outcome(WriteOutcome{Write: id}); err == nil {
			fmt.Printf("outcome %d\n", id)
		}
	}
	fmt.Println(err)
}

func TestKill(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for round := range 12 {
		root := t.TempDir()
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "JOURNAL_CRASH="+root)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Kill it after so many acknowledged records, wherever it stands then.
		var printed bytes.Buffer
		buf := make([]byte, 64)
		for strings.Count(printed.String(), "\n") < 3+round*7 {
			n, err := out.Read(buf)
			printed.Write(buf[:n])
			if err != nil {
				t.Fatalf("the child ended by itself: %s", printed.String())
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := printed.ReadFrom(out); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		run, err := Open(filepath.Join(root, "r"))
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		acknowledged(t, run, printed.String())
	}
}

// acknowledged checks that nothing is lost that the child was told is on disk.
func acknowledged(t *testing.T, run *Run, printed string) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(printed), "\n") {
		var what string
		var id int
		if _, err := fmt.Sscanf(line, "%s %d", &what, &id); err != nil {
			continue // the last line was cut
		}
		if id > len(run.Writes) || what == "outcome" && run.Writes[id-1].State != WriteDone {
			t.Errorf("%s was acknowledged and is lost", line)
		}
	}
	if run.Alive {
		t.Error("the run of a killed process counts as alive")
	}
	if run.State() != "broken off" {
		t.Errorf("got state %s, want broken off", run.State())
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"seq":1,"start":{"id":"a"}}` + "\n" + `{"seq":2,"intent":{"write":1}}` + "\n" + `{"seq":3,"outcome":{"write":1}}` + "\n"))
	f.Add([]byte(`{"seq":1,"outcome":{"write":-1}}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		run, err := read(bytes.NewReader(text))
		if (run == nil) == (err == nil) {
			t.Fatalf("want a run or an error: %v, %v", run, err)
		}
		if run != nil && len(run.Records) > bytes.Count(text, []byte("\n")) {
			t.Fatal("more records than lines")
		}
	})
}
