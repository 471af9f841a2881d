package step

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// conflictTries is how often an object is read again because it changed
// between reading and patching.
const conflictTries = 5

// Unfinalize returns the verb that frees objects which are being deleted and
// held by finalizers that nobody removes any more.
func Unfinalize() *Kind {
	return &Kind{
		Name: "unfinalize",
		Doc: "Removes the named finalizers from objects that are already being deleted, and proves that they went.\n\n" +
			"An object that is not being deleted is never touched, and neither is any other finalizer. " +
			"Each object gets one JSON patch that tests its UID and its whole list of finalizers before it replaces the list. " +
			"An object that other finalizers still hold makes the step fail, naming them.",
		Example: `- id: free
  title: Free what is stuck
  unfinalize: {resource: pods, namespace: demo, selector: app=web, finalizers: [example.com/guard]}
  approve: Remove the guard's finalizer?
`,
		Result: "`freed`, `held` (by other finalizers) and `notDeleting`: lists of names",
		New:    func() Action { return new(unfinalize) },
	}
}

type unfinalize struct {
	Target
	Timeout
	Finalizers []string `yaml:"finalizers,required" doc:"The finalizers to remove, by their whole names."`
}

func (u *unfinalize) Effect() Effect { return Destroys }

func (u *unfinalize) Check() []Problem {
	ps := u.check()
	for _, f := range u.Finalizers {
		if f == "kubernetes" || f == "foregroundDeletion" || f == "orphan" {
			ps = append(ps, Problem{"finalizers", strconv.Quote(f) + " is Kubernetes' own: taking it away loses objects", "use explain to see what it waits for"})
		}
	}
	return ps
}

func (u *unfinalize) Permissions() []Permission {
	verbs := []string{"list", "watch", "get", "patch"}
	return u.permissions(verbs...)
}

func (u *unfinalize) Kubectl() []Line {
	var lines []Line
	for _, res := range u.Resource {
		one := u.Target
		one.Resource = Strings{res}
		if one.Name != "" {
			one.Name, one.FieldSelector = "", "metadata.name="+one.Name
		}
		row, patch := []string{"name", "patch"}, []string{"kubectl", "patch", res, Mark(RowMark, "name")}
		if u.Namespace != "" || u.AllNamespaces {
			row = append([]string{"namespace"}, row...)
			patch = append(patch, "-n", Mark(RowMark, "namespace"))
		}
		patch = append(patch, "--type=json", "-p", Mark(RowMark, "patch"))
		lines = append(lines, Line{Words: one.kubectl("get", "-o", "go-template="+u.template(len(row) == 3)),
			Each: &Loop{Vars: row, Do: []Line{{Words: patch}}}})
	}
	return lines
}

// template prints, for each object that is to be freed, what the loop reads:
// the namespace, the name and the patch.
func (u *unfinalize) template(namespaced bool) string {
	names := make([]string, len(u.Finalizers))
	for i, f := range u.Finalizers {
		names[i] = strconv.Quote(f)
	}
	ours := "eq . " + strings.Join(names, " ")
	place := ""
	if namespaced {
		place = "{{.metadata.namespace}} "
	}
	return `{{range .items}}{{$free := false}}{{if .metadata.deletionTimestamp}}{{range .metadata.finalizers}}{{if ` + ours +
		`}}{{$free = true}}{{end}}{{end}}{{end}}{{if $free}}` + place + `{{.metadata.name}} ` +
		`[{"op":"test","path":"/metadata/uid","value":"{{.metadata.uid}}"},` +
		`{"op":"test","path":"/metadata/finalizers","value":[{{range $i, $f := .metadata.finalizers}}{{if $i}},{{end}}{{printf "%q" $f}}{{end}}]},` +
		`{"op":"replace","path":"/metadata/finalizers","value":[{{$comma := ""}}{{range .metadata.finalizers}}{{if not (` + ours +
		`)}}{{$comma}}{{printf "%q" .}}{{$comma = ","}}{{end}}{{end}}]}]` + "{{\"\\n\"}}{{end}}{{end}}"
}

// sort tells the objects that are to be freed from the others.
func (u *unfinalize) sort(found []Found) (free, notDeleting []Found) {
	for _, f := range found {
		if !slices.ContainsFunc(f.Object.GetFinalizers(), u.ours) {
			continue
		}
		if f.Object.GetDeletionTimestamp() == nil {
			notDeleting = append(notDeleting, f)
		} else {
			free = append(free, f)
		}
	}
	return free, notDeleting
}

func (u *unfinalize) ours(finalizer string) bool { return slices.Contains(u.Finalizers, finalizer) }

func (u *unfinalize) left(finalizers []string) []string {
	left := []string{}
	for _, f := range finalizers {
		if !u.ours(f) {
			left = append(left, f)
		}
	}
	return left
}

func (u *unfinalize) Preview(ctx context.Context, r Reader) (*Preview, error) {
	found, err := u.find(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("unfinalize %s: %w", u.what(), err)
	}
	free, notDeleting := u.sort(found)
	p := &Preview{Said: "nothing to free", Idle: len(free) == 0}
	if len(free) > 0 {
		p.Said = fmt.Sprintf("would free %d", len(free))
	}
	if n := len(notDeleting); n > 0 {
		p.Said += fmt.Sprintf("; %d with the finalizer are not being deleted and stay as they are", n)
	}
	for _, f := range free {
		after := f.Object.DeepCopy()
		after.SetFinalizers(u.left(f.Object.GetFinalizers()))
		p.Changes = append(p.Changes, Change{Op: OpUpdate, Object: f.Ref, Before: f.Object, After: after, Note: "is being deleted"})
	}
	return p, nil
}

func (u *unfinalize) Run(ctx context.Context, c Cluster, h Host) (*Result, error) {
	found, err := u.find(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("unfinalize %s: %w", u.what(), err)
	}
	free, notDeleting := u.sort(found)
	if len(free) > 0 {
		h.Progress(fmt.Sprintf("freeing %d", len(free)))
	}
	err = each(ctx, free, func(ctx context.Context, _ int, f Found) error { return u.free(ctx, c, f) })
	value := map[string]any{"freed": refNames(free), "held": []any{}, "notDeleting": refNames(notDeleting)}
	res := &Result{Value: value, Said: "nothing to free"}
	if len(free) > 0 {
		res.Said = fmt.Sprintf("%d freed", len(free))
	}
	if err != nil {
		return res, fmt.Errorf("unfinalize %s: %w", u.what(), err)
	}
	var going, held []Found
	for _, f := range free {
		if len(u.left(f.Object.GetFinalizers())) > 0 {
			held = append(held, f)
		} else {
			going = append(going, f)
		}
	}
	value["held"] = refNames(held)
	if _, err := waitGone(ctx, c, h, going); err != nil {
		return res, fmt.Errorf("unfinalize %s: %w", u.what(), err)
	}
	if len(held) > 0 {
		return res, fmt.Errorf("unfinalize %s: others hold %s", u.what(), u.holders(held))
	}
	return res, nil
}

func (u *unfinalize) holders(held []Found) string {
	parts := make([]string, len(held))
	for i, f := range held {
		parts[i] = f.Ref.String() + " (" + strings.Join(u.left(f.Object.GetFinalizers()), ", ") + ")"
	}
	return strings.Join(parts, "; ")
}

// free patches one object, reading it again if it changed under the patch.
func (u *unfinalize) free(ctx context.Context, c Cluster, f Found) error {
	obj := f.Object
	for try := 0; ; try++ {
		body, err := u.patch(obj.GetUID(), obj.GetFinalizers())
		if err != nil {
			return err
		}
		_, err = c.Do(ctx, Write{Ref: f.Ref, Before: obj, Patch: &PatchWrite{Type: types.JSONPatchType, Body: body}})
		switch {
		case err == nil || apierrors.IsNotFound(err):
			return nil
		case !changedMeanwhile(err) || try == conflictTries:
			return webhookHint(err)
		}
		if obj, err = c.Get(ctx, f.Ref); err != nil {
			return ignoreGone(err)
		}
		if obj.GetUID() != f.Ref.UID || !slices.ContainsFunc(obj.GetFinalizers(), u.ours) {
			return nil
		}
	}
}

// changedMeanwhile recognises a JSON patch whose tests failed: the server says
// that it cannot process it.
func changedMeanwhile(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsInvalid(err) && strings.Contains(err.Error(), "test")
}

func (u *unfinalize) patch(uid types.UID, finalizers []string) ([]byte, error) {
	return json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": uid},
		{"op": "test", "path": "/metadata/finalizers", "value": finalizers},
		{"op": "replace", "path": "/metadata/finalizers", "value": u.left(finalizers)},
	})
}

// webhookHint says what a dead webhook has to do with a finalizer.
func webhookHint(err error) error {
	if apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook") {
		return fmt.Errorf("%w\n    Removing a finalizer is an update, and that webhook must see it: bring it back first, or delete its webhook configuration", err)
	}
	return err
}
