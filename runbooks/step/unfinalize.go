package step

import (
	"context"
	"encoding/json"
	"errors"
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
		Result: "`freed`, `held` (those of them that other finalizers hold) and `notDeleting`: lists of names",
		New:    func() Action { return new(unfinalize) },
	}
}

type unfinalize struct {
	Target
	Timeout
	Finalizers []string `yaml:"finalizers,required" doc:"The finalizers to remove, by their whole names."`
	Wait       *bool    `yaml:"wait" doc:"Wait until what is freed is gone (the default)."`
}

func (u *unfinalize) Effect() Effect { return Destroys }

func (u *unfinalize) Check() []Problem {
	ps := u.check()
	for _, f := range u.Finalizers {
		if slices.Contains(kubernetesOwn, f) {
			ps = append(ps, Problem{"finalizers", strconv.Quote(f) + " is Kubernetes' own: taking it away loses objects", "use explain to see what it waits for"})
		}
	}
	return ps
}

func (u *unfinalize) Permissions() []Permission {
	verbs := []string{"get", "list", "patch"}
	if u.waits() {
		verbs = append(verbs, "watch")
	}
	return u.permissions(verbs...)
}

func (u *unfinalize) waits() bool { return u.Wait == nil || *u.Wait }

func (u *unfinalize) Kubectl() []Line {
	return u.perObject(u.rows(), "patch", "--type=json", "-p", Mark(RowMark, "patch"))
}

// rows makes the template print only objects that are to be freed, each with
// its patch.
func (u *unfinalize) rows() rows {
	names := make([]string, len(u.Finalizers))
	for i, f := range u.Finalizers {
		names[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(f) + `"` // markers stay as they are
	}
	ours := "eq . " + strings.Join(names, " ")
	before := `{{$free := false}}{{if .metadata.deletionTimestamp}}{{range .metadata.finalizers}}{{if ` + ours +
		`}}{{$free = true}}{{end}}{{end}}{{end}}{{if $free}}`
	patch := `[{"op":"test","path":"/metadata/uid","value":"{{.metadata.uid}}"},` +
		`{"op":"test","path":"/metadata/finalizers","value":[{{range $i, $f := .metadata.finalizers}}{{if $i}},{{end}}{{printf "%q" $f}}{{end}}]},` +
		`{"op":"replace","path":"/metadata/finalizers","value":[{{$comma := ""}}{{range .metadata.finalizers}}{{if not (` + ours +
		`)}}{{$comma}}{{printf "%q" .}}{{$comma = ","}}{{end}}{{end}}]}]`
	return rows{before: before, after: "{{end}}", name: "patch", value: patch}
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

func (u *unfinalize) targets(ctx context.Context, r Reader) (free, notDeleting []Found, err error) {
	if err := refuse(u); err != nil {
		return nil, nil, fmt.Errorf("unfinalize %s: %w", u.what(), err)
	}
	found, err := u.find(ctx, r)
	if err != nil {
		return nil, nil, fmt.Errorf("unfinalize %s: %w", u.what(), err)
	}
	free, notDeleting = u.sort(found)
	return free, notDeleting, nil
}

func (u *unfinalize) Preview(ctx context.Context, r Reader) (*Preview, error) {
	free, notDeleting, err := u.targets(ctx, r)
	if err != nil {
		return nil, err
	}
	p := &Preview{Said: "nothing to free", Idle: len(free) == 0}
	if len(free) > 0 {
		p.Said = fmt.Sprintf("would free %d", len(free))
	}
	if n := len(notDeleting); n > 0 {
		p.Said += fmt.Sprintf("; %d with the finalizer are not being deleted and stay as they are", n)
	}
	for _, f := range free {
		after := f.Object.DeepCopy()
		left := u.left(f.Object.GetFinalizers())
		after.SetFinalizers(left)
		note := "is being deleted"
		if len(left) > 0 {
			note += ", and stays held by " + strings.Join(left, ", ")
		}
		p.Changes = append(p.Changes, Change{Op: OpUpdate, Object: f.Ref, Before: f.Object, After: after, Note: note})
	}
	return p, nil
}

func (u *unfinalize) Run(ctx context.Context, c Cluster, h Host) (*Result, error) {
	free, notDeleting, err := u.targets(ctx, c)
	if err != nil {
		return nil, err
	}
	done := make([]bool, len(free))
	left := make([][]string, len(free))
	err = each(ctx, free, func(ctx context.Context, i int, f Found) error {
		h.Progress("freeing " + f.Ref.String())
		var err error
		left[i], err = u.free(ctx, c, f)
		done[i] = err == nil
		return err
	})
	var freed, going, held []Found
	for i, f := range free {
		switch {
		case !done[i]:
			continue
		case !onlyKubernetes(left[i]):
			held = append(held, f)
		default:
			going = append(going, f)
		}
		freed = append(freed, f)
	}
	res := &Result{Said: u.said(len(freed), len(notDeleting)),
		Value: map[string]any{"freed": refNames(freed), "held": refNames(held), "notDeleting": refNames(notDeleting)}}
	if err == nil && u.waits() {
		_, err = waitGone(ctx, c, h, going)
	}
	if err == nil && len(held) > 0 {
		err = fmt.Errorf("others hold %s", strings.Join(holders(free, left), "; "))
	}
	if err != nil {
		return res, fmt.Errorf("unfinalize %s: %w", u.what(), err)
	}
	return res, nil
}

func (u *unfinalize) said(freed, notDeleting int) string {
	s := "nothing to free"
	if freed > 0 {
		s = fmt.Sprintf("%d freed", freed)
	}
	if notDeleting > 0 {
		s += fmt.Sprintf("; %d not being deleted, and left alone", notDeleting)
	}
	return s
}

// kubernetesOwn are the finalizers whose controllers run wherever Kubernetes
// does, and take them off by themselves.
var kubernetesOwn = []string{"kubernetes", "foregroundDeletion", "orphan"}

// onlyKubernetes reports whether nobody else holds an object.
func onlyKubernetes(finalizers []string) bool {
	return !slices.ContainsFunc(finalizers, func(f string) bool { return !slices.Contains(kubernetesOwn, f) })
}

// holders names the objects that other finalizers still hold.
func holders(found []Found, left [][]string) []string {
	var parts []string
	for i, f := range found {
		if !onlyKubernetes(left[i]) {
			parts = append(parts, f.Ref.String()+" ("+strings.Join(left[i], ", ")+")")
		}
	}
	return someOf(parts, 20)
}

// free patches one object, reading it again if it changed under the patch, and
// returns the finalizers that it still has.
func (u *unfinalize) free(ctx context.Context, c Cluster, f Found) ([]string, error) {
	obj := f.Object
	for try := 0; ; try++ {
		body, err := u.patch(obj.GetUID(), obj.GetFinalizers())
		if err != nil {
			return nil, err
		}
		_, err = c.Do(ctx, Write{Ref: f.Ref, Before: obj, Patch: &PatchWrite{Type: types.JSONPatchType, Body: body}})
		switch {
		case err == nil:
			return u.left(obj.GetFinalizers()), nil
		case namespaceMissing(err):
			return nil, fmt.Errorf("%s is left over in a namespace that is gone: make the namespace %s again, then free it: %w", f.Ref, f.Ref.Namespace, err)
		case apierrors.IsNotFound(err):
			return nil, nil
		case !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) || try == conflictTries:
			return nil, webhookHint(err, "it is asked before an object of this kind changes, be it only by a finalizer")
		}
		now, gerr := c.Get(ctx, Ref{Resource: f.Ref.Resource, Namespace: f.Ref.Namespace, Name: f.Ref.Name})
		switch {
		case apierrors.IsNotFound(gerr):
			return nil, nil
		case gerr != nil:
			return nil, gerr
		case now.GetUID() != f.Ref.UID:
			return nil, nil
		case !slices.ContainsFunc(now.GetFinalizers(), u.ours):
			return now.GetFinalizers(), nil
		case apierrors.IsInvalid(err) && slices.Equal(now.GetFinalizers(), obj.GetFinalizers()):
			return nil, err // it has not changed, so the server means something else
		}
		obj = now
	}
}

// namespaceMissing recognises the answer about an object whose namespace does
// not exist any more: it is the namespace that is not found.
func namespaceMissing(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}

func (u *unfinalize) patch(uid types.UID, finalizers []string) ([]byte, error) {
	return json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": uid},
		{"op": "test", "path": "/metadata/finalizers", "value": finalizers},
		{"op": "replace", "path": "/metadata/finalizers", "value": u.left(finalizers)},
	})
}
