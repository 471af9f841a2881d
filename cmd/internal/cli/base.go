package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"rutter/content"
	"rutter/runbooks"
	"rutter/runbooks/diag"
	"rutter/runbooks/runbook"
)

// configFile marks the root of a knowledge base.
const configFile = "rutter.yaml"

// baseFlags choose the knowledge base: --dir, else the folder around the
// current one that holds a rutter.yaml, else the one in the binary.
type baseFlags struct {
	env *Env
	dir string
}

// base is a knowledge base: its runbooks and its pages.
type base struct {
	Root     string // "" for the built-in one
	Runbooks fs.FS
	Content  fs.FS
	Config   config
}

// open finds and opens the knowledge base.
func (f *baseFlags) open() (*base, error) {
	root := f.dir
	if root != "" {
		root = f.env.abs(root)
		if _, err := os.Stat(filepath.Join(root, "runbooks")); err != nil {
			return nil, usage(fmt.Errorf("%s is no knowledge base: it has no folder runbooks", f.dir))
		}
	} else {
		root = findUp(f.env.Dir, configFile)
	}
	if root == "" {
		return &base{Runbooks: runbooks.FS, Content: content.Files, Config: defaultConfig()}, nil
	}
	cfg, err := readConfig(filepath.Join(root, configFile))
	if err != nil {
		return nil, usage(err)
	}
	return &base{Root: root, Runbooks: os.DirFS(filepath.Join(root, "runbooks")), Content: os.DirFS(filepath.Join(root, "content")), Config: cfg}, nil
}

// findUp returns the nearest folder from dir upwards that holds name, or "".
func findUp(dir, name string) string {
	for {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// abs returns path as seen from the directory of the Env.
func (e *Env) abs(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(e.Dir, path)
}

// load reads all runbooks; one that is wrong is an error that lists why.
func (e *Env) load(b *base) ([]*runbook.Runbook, error) {
	all, err := runbook.Load(b.Runbooks, e.Kinds)
	if err != nil {
		return nil, usage(e.positions(err, "runbooks"))
	}
	return all, nil
}

// positions puts a folder in front of the files that diagnostics name.
func (e *Env) positions(err error, folder string) error {
	list, ok := diag.AsList(err)
	if !ok {
		return err
	}
	for i := range list {
		list[i].Pos.File = filepath.ToSlash(filepath.Join(folder, list[i].Pos.File))
	}
	return list.Err()
}

// find returns the runbook that an argument means: a file, or a name in the
// knowledge base. A broken runbook elsewhere does not stand in the way.
func (e *Env) find(b *base, arg string) (*runbook.Runbook, error) {
	if strings.HasSuffix(arg, ".yaml") {
		text, err := os.ReadFile(e.abs(arg))
		if err != nil {
			return nil, usage(err)
		}
		src := diag.Source{Name: arg, Text: string(text)}
		rb, err := runbook.Parse(src, e.Kinds)
		if err != nil {
			if list, ok := diag.AsList(err); ok {
				diag.Print(e.Stderr, list, map[string]diag.Source{arg: src})
				return nil, &codedError{exitUsage, nil}
			}
			return nil, usage(err)
		}
		return rb, nil
	}
	all, loadErr := runbook.Load(b.Runbooks, e.Kinds)
	rb, err := runbook.Find(all, arg)
	if errors.Is(err, runbook.ErrNotFound) && loadErr != nil {
		return nil, usage(errors.Join(err, e.positions(loadErr, "runbooks")))
	}
	if err != nil {
		return nil, usage(fmt.Errorf("%w\n\thint: rutter list shows them all", err))
	}
	return rb, nil
}
