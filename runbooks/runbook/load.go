package runbook

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"rutter/runbooks/diag"
	"rutter/runbooks/step"
)

// Load reads every runbook below the root of fsys: files that end in .yaml and
// not in .drill.yaml or .crd.yaml, in order of their paths. The error lists what is wrong
// in all of them; the runbooks that are right are returned beside it.
func Load(fsys fs.FS, kinds []*step.Kind) ([]*Runbook, error) {
	var list diag.List
	var runbooks []*Runbook
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".drill.yaml") || strings.HasSuffix(name, ".crd.yaml") {
			return err
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		rb, err := Parse(diag.Source{Name: name, Text: string(text)}, kinds)
		if err != nil {
			problems, ok := diag.AsList(err)
			if !ok {
				return err
			}
			list = append(list, problems...)
			return nil
		}
		rb.Path = strings.TrimSuffix(name, ".yaml")
		if base := path.Base(rb.Path); base != rb.Name {
			list.AddHint(diag.Pos{File: name, Line: 1, Col: 1}, "rename the file, or the runbook",
				"the file is called %s.yaml, but the runbook %s", base, rb.Name)
			return nil
		}
		runbooks = append(runbooks, rb)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read runbooks: %w", err)
	}
	return runbooks, list.Err()
}

// ErrNotFound means that no runbook has the name asked for.
var ErrNotFound = errors.New("no such runbook")

// Find returns the runbook with the name or path. The error, which wraps
// ErrNotFound, names the nearest.
func Find(runbooks []*Runbook, name string) (*Runbook, error) {
	var found []*Runbook
	var names []string
	for _, rb := range runbooks {
		if rb.Path == name {
			return rb, nil
		}
		if rb.Name == name || strings.HasSuffix(rb.Path, "/"+name) {
			found = append(found, rb)
		}
		names = append(names, rb.Name)
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if len(found) > 1 {
		paths := make([]string, len(found))
		for i, rb := range found {
			paths[i] = rb.Path
		}
		slices.Sort(paths)
		return nil, fmt.Errorf("%w: %q is the name of several: %s", ErrNotFound, name, strings.Join(paths, ", "))
	}
	hint := diag.DidYouMean(name, names)
	if hint != "" {
		hint = ": " + hint
	}
	return nil, fmt.Errorf("%w: %q%s", ErrNotFound, name, hint)
}
