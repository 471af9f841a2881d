package step

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Delete returns the verb that deletes objects and waits until they are gone.
func Delete() *Kind {
	return &Kind{
		Name: "delete",
		Doc: "Deletes what matches, and waits until it is really gone.\n\n" +
			"Each object is deleted by its UID, so one that was made anew in the meantime is left alone and reported. " +
			"What is being deleted already is only waited for. " +
			"If the step's time ends first it fails, and says which objects remain and which finalizers hold them.",
		Example: `- id: drop
  title: Delete the pods
  delete: {resource: pods, namespace: demo, selector: app=web}
  approve: Delete the pods of web?
  timeout: 1m
`,
		Result: "`deleted`, `already` (being deleted before) and `recreated`: lists of names",
		New:    func() Action { return new(deletion) },
	}
}

type deletion struct {
	Target
	Timeout
	All         bool   `yaml:"all" doc:"Delete all of them. Needed where neither name nor a selector narrows it down."`
	Wait        *bool  `yaml:"wait" doc:"Wait until they are gone (the default)."`
	Propagation string `yaml:"propagation" enum:"Background|Foreground|Orphan" doc:"What becomes of what they own."`
	GracePeriod *int64 `yaml:"gracePeriod" doc:"Seconds that pods get to end; 0 is at once."`
}

func (d *deletion) Effect() Effect { return Destroys }

func (d *deletion) Check() []Problem {
	ps := d.check()
	narrowed := d.Name != "" || d.Selector != "" || d.FieldSelector != ""
	if !narrowed && !d.All {
		ps = append(ps, Problem{"", "this would delete all of them", "add name, selector or fieldSelector, or say all: true"})
	}
	if narrowed && d.All {
		ps = append(ps, Problem{"all", "all and a name or selector exclude each other", "drop one of them"})
	}
	if d.GracePeriod != nil && *d.GracePeriod < 0 {
		ps = append(ps, Problem{"gracePeriod", "a grace period is not negative", "use 0 to delete at once"})
	}
	return ps
}

func (d *deletion) waits() bool { return d.Wait == nil || *d.Wait }

func (d *deletion) Permissions() []Permission {
	verbs := []string{"get", "delete"}
	if d.Name == "" {
		verbs = []string{"list", "delete"}
	}
	ps := d.permissions(verbs...)
	if d.waits() {
		ps = append(ps, d.permissions("list", "watch")...)
	}
	return unique(ps)
}

func (d *deletion) Kubectl() []Line {
	flags := []string{"--ignore-not-found"}
	if d.All {
		flags = append(flags, "--all")
	}
	if d.Propagation != "" {
		flags = append(flags, "--cascade="+strings.ToLower(d.Propagation))
	}
	if d.GracePeriod != nil {
		flags = append(flags, "--grace-period="+strconv.FormatInt(*d.GracePeriod, 10))
		if *d.GracePeriod == 0 {
			flags = append(flags, "--force")
		}
	}
	if d.waits() {
		flags = append(flags, "--timeout="+shortDuration(d.limit))
	} else {
		flags = append(flags, "--wait=false")
	}
	return []Line{{Words: d.kubectl("delete", flags...)}}
}

func (d *deletion) Preview(ctx context.Context, r Reader) (*Preview, error) {
	found, err := d.find(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("delete %s: %w", d.what(), err)
	}
	p := &Preview{Said: "nothing to delete", Idle: len(found) == 0}
	for _, f := range found {
		if d.send(f) {
			p.Changes = append(p.Changes, Change{Op: OpDelete, Object: f.Ref, Before: f.Object, Note: deletionNote(f)})
		}
	}
	if len(found) > 0 {
		p.Said = fmt.Sprintf("would delete %d", len(p.Changes))
		if n := len(found) - len(p.Changes); n > 0 {
			p.Said += fmt.Sprintf(", and wait for %d being deleted already", n)
		}
	}
	return p, nil
}

func deletionNote(f Found) string {
	if fs := f.Object.GetFinalizers(); len(fs) > 0 {
		return "held by " + strings.Join(fs, ", ")
	}
	return ""
}

// send reports whether a DELETE is to be sent: not for what is being deleted
// already, unless it is to go sooner.
func (d *deletion) send(f Found) bool {
	if f.Object.GetDeletionTimestamp() == nil {
		return true
	}
	grace := f.Object.GetDeletionGracePeriodSeconds()
	return d.GracePeriod != nil && grace != nil && *d.GracePeriod < *grace
}

func (d *deletion) Run(ctx context.Context, c Cluster, h Host) (*Result, error) {
	found, err := d.find(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("delete %s: %w", d.what(), err)
	}
	var send, already []Found
	for _, f := range found {
		if d.send(f) {
			send = append(send, f)
		} else {
			already = append(already, f)
		}
	}
	if len(send) > 0 {
		h.Progress(fmt.Sprintf("deleting %d", len(send)))
	}
	err = each(ctx, send, func(ctx context.Context, _ int, f Found) error {
		_, err := c.Do(ctx, Write{Ref: f.Ref, Before: f.Object, Delete: &DeleteWrite{Propagation: d.Propagation, GraceSeconds: d.GracePeriod}})
		return ignoreGone(err)
	})
	value := map[string]any{"deleted": refNames(send), "already": refNames(already), "recreated": []any{}}
	res := &Result{Value: value, Said: saidDeleted(len(send), len(already))}
	if err != nil {
		return res, fmt.Errorf("delete %s: %w", d.what(), err)
	}
	if !d.waits() || len(found) == 0 {
		return res, nil
	}
	recreated, err := waitGone(ctx, c, h, found)
	for _, name := range recreated {
		value["recreated"] = append(value["recreated"].([]any), name)
	}
	if len(recreated) > 0 {
		res.Said += "; a controller made again: " + strings.Join(recreated, ", ")
	}
	if err != nil {
		return res, fmt.Errorf("delete %s: %w", d.what(), err)
	}
	return res, nil
}

func saidDeleted(sent, already int) string {
	switch {
	case sent == 0 && already == 0:
		return "nothing to delete"
	case already == 0:
		return fmt.Sprintf("%d deleted", sent)
	}
	return fmt.Sprintf("%d deleted, %d being deleted before", sent, already)
}

// unique drops repeats.
func unique(ps []Permission) []Permission {
	seen := map[Permission]bool{}
	var out []Permission
	for _, p := range ps {
		if !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}

// shortDuration writes a duration as kubectl takes it: 90s is 1m30s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
