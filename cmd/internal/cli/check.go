package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"rutter/runbooks/diag"
	"rutter/runbooks/runbook"
)

type checkOptions struct {
	env   *Env
	base  *baseFlags
	paths []string
}

// newCheckCmd returns 'rutter check'. Tests pass their own run to see the options.
func newCheckCmd(env *Env, base *baseFlags, run func(context.Context, *checkOptions) error) *cobra.Command {
	opts := &checkOptions{env: env, base: base}
	return &cobra.Command{
		Use:   "check [PATH...]",
		Short: "Report everything that is wrong with runbooks and drills",
		Long: `Check reads runbooks (*.yaml) and drills (*.drill.yaml), files or folders of them,
and reports every problem with its place. Without a path it reads the whole
knowledge base. It needs no cluster.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.paths = args
			return run(cmd.Context(), opts)
		},
	}
}

func runCheck(_ context.Context, opts *checkOptions) error {
	c := &checker{env: opts.env, sources: map[string]diag.Source{}, runbooks: map[string]bool{}}
	if len(opts.paths) == 0 {
		b, err := opts.base.open()
		if err != nil {
			return err
		}
		if err := c.tree(b.Runbooks, "runbooks"); err != nil {
			return err
		}
	}
	for _, path := range opts.paths {
		if err := c.path(path); err != nil {
			return usage(err)
		}
	}
	c.list.Sort()
	diag.Print(opts.env.Stderr, c.list, c.sources)
	if len(c.list) > 0 {
		fmt.Fprintf(opts.env.Stderr, "%s in %s\n", count(len(c.list), "problem"), count(c.files, "file"))
		return &codedError{exitUsage, nil}
	}
	fmt.Fprintf(opts.env.Stdout, "%s: no problem\n", count(c.files, "file"))
	return nil
}

type checker struct {
	env      *Env
	list     diag.List
	sources  map[string]diag.Source
	runbooks map[string]bool
	files    int
}

func (c *checker) path(path string) error {
	abs := c.env.abs(path)
	info, err := os.Stat(abs)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return c.tree(os.DirFS(abs), path)
	}
	text, err := os.ReadFile(abs)
	if err != nil {
		return err
	}
	c.file(path, string(text))
	return nil
}

// tree checks the YAML files below a folder, but for those of hidden folders
// and custom resources, which are not ours.
func (c *checker) tree(fsys fs.FS, folder string) error {
	return fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".crd.yaml") || name == configFile:
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		c.file(filepath.ToSlash(filepath.Join(folder, name)), string(text))
		return nil
	})
}

func (c *checker) file(name, text string) {
	c.files++
	src := diag.Source{Name: name, Text: text}
	c.sources[name] = src
	var err error
	if strings.HasSuffix(name, ".drill.yaml") {
		_, err = runbook.ParseDrill(src, c.env.Kinds)
	} else {
		var rb *runbook.Runbook
		rb, err = runbook.Parse(src, c.env.Kinds)
		if err == nil && strings.TrimSuffix(filepath.Base(name), ".yaml") != rb.Name {
			c.list.AddHint(diag.Pos{File: name, Line: 1, Col: 1}, "rename one of them", "the file is called %s, but the runbook %s", filepath.Base(name), rb.Name)
		}
	}
	if list, ok := diag.AsList(err); ok {
		c.list = append(c.list, list...)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.list.Addf(diag.Pos{File: name}, "%s", err)
	}
}

// count returns "1 problem", "2 problems".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
