package cli

import (
	"fmt"
	"strings"
	"time"

	"rutter/executor"
	"rutter/runbooks/runbook"
	"rutter/runbooks/step"
)

// watcher shows a run as it goes: a heading per step, the commands that would
// do the same, what was found, and how it ended. On a terminal the line of
// what is being waited for is drawn over; elsewhere it is printed when it
// changes.
type watcher struct {
	style
	terminal bool
	now      func() time.Time
	total    int
	started  time.Time
	number   int
	progress string
	printed  time.Time // when progress was last printed as a line
	drawn    bool
}

func newWatcher(env *Env, rb *runbook.Runbook) *watcher {
	return &watcher{style: style{env.Stdout, env.Color}, terminal: env.Terminal, now: env.Now, total: len(rb.Steps) + len(rb.Finally)}
}

func (w *watcher) event(e executor.Event) {
	w.clear()
	switch {
	case e.Start != nil:
		w.start(e.Start, e.Time)
	case e.Progress != nil:
		w.wait(e.Progress.Text)
	case e.End != nil:
		w.end(e.End)
	case e.Finally != nil:
		why := "at the end"
		if e.Finally.Interrupted {
			why = fmt.Sprintf("interrupted; cleaning up (at most %s; once more to stop now)", e.Finally.Reserved)
		}
		w.linef("%s", w.paint(bold, why))
	}
}

func (w *watcher) start(e *executor.StepStart, at time.Time) {
	w.started, w.progress, w.printed = at, "", time.Time{}
	s := e.Step
	if s.Phase != "" {
		w.linef("\n%s", w.paint(bold, s.Phase))
	}
	number := "  "
	if e.Depth == 0 {
		w.number++
		number = fmt.Sprintf("%d/%d", w.number, w.total)
	}
	role := ""
	if s.Role != "" {
		role = "  [" + s.Role + "]"
	}
	w.linef("%s%s %s%s  %s", strings.Repeat("  ", e.Depth), w.paint(bold, number), w.paint(bold, s.Title), w.paint(dim, role),
		w.paint(effectColor(s.Effect()), s.Effect().String()))
}

func (w *watcher) wait(text string) {
	if w.terminal {
		w.drawn = true
		line := fmt.Sprintf("    … %s (%s)", printable(text), w.now().Sub(w.started).Round(time.Second))
		if r := []rune(line); len(r) > 78 {
			line = string(r[:77]) + "…"
		}
		fmt.Fprint(w.w, "\r"+line)
		return
	}
	// Elsewhere a thousand objects would be a line each: of those that begin
	// alike, one now and then tells enough.
	now := w.now()
	if text != w.progress && (beginning(text) != beginning(w.progress) || now.Sub(w.printed) >= time.Second) {
		w.progress, w.printed = text, now
		w.linef("    … %s", printable(text))
	}
}

// beginning is the first word of what is being waited for, numbers all alike.
func beginning(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return '#'
		}
		return r
	}, word)
}

// clear wipes the line of what is being waited for.
func (w *watcher) clear() {
	if w.drawn {
		fmt.Fprint(w.w, "\r\x1b[K")
		w.drawn = false
	}
}

func (w *watcher) end(rep *executor.StepReport) {
	indent := strings.Repeat("  ", rep.Depth) + "    "
	if rep.Status == executor.Skipped {
		w.linef("%s%s", indent, w.paint(dim, "skipped: "+rep.Why))
		return
	}
	w.commands(indent, rep.Lines, rep.Context)
	w.table(indent, rep.Table)
	w.findings(indent, rep.Findings)
	line := string(rep.Status)
	if rep.Said != "" {
		line += ": " + oneLine(rep.Said)
	}
	code := green
	if rep.Status != executor.Done {
		code = red
		line = string(rep.Status) + ": " + rep.Why
	}
	if rep.Status == executor.Rescued {
		code, line = yellow, "failed: "+rep.Why+" (going on with its rescue)"
	}
	for i, part := range strings.Split(strings.TrimRight(line, "\n"), "\n") {
		if i == 0 {
			part += fmt.Sprintf("  (%s)", rep.Duration)
		}
		w.linef("%s%s", indent, w.paint(code, part))
	}
}

// identities names the clusters before anything is done to them.
func (s style) identities(rb *runbook.Runbook, ids map[string]step.Identity) {
	for _, c := range rb.Clusters {
		id, ok := ids[c.Role]
		if !ok {
			continue
		}
		user := id.User
		if user == "" {
			user = "unknown"
		}
		s.linef("%s  %s", s.paint(bold, c.Role), printable(c.Title))
		s.linef("    context  %s", printable(id.Context))
		s.linef("    server   %s  (Kubernetes %s)", printable(id.Server), printable(id.Version))
		s.linef("    user     %s", printable(user))
		s.linef("    uid      %s", id.UID)
	}
}
