package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rutter/generator"
	"rutter/generator/bundle"
	"rutter/runbooks/diag"
	"rutter/site"
)

type buildOptions struct {
	env  *Env
	base *baseFlags
	out  string
}

// newBuildCmd returns 'rutter build'.
func newBuildCmd(env *Env, base *baseFlags, run func(context.Context, *buildOptions) error) *cobra.Command {
	opts := &buildOptions{env: env, base: base}
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build the site",
		Long: `Build makes the site of the knowledge base: plain files that open from a folder
or from any server. A problem in a page or a runbook, or a link that leads
nowhere, is reported with its place, and nothing is written.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), opts) },
	}
	cmd.Flags().StringVarP(&opts.out, "out", "o", "public", "folder to write to")
	return cmd
}

func runBuild(ctx context.Context, opts *buildOptions) error {
	b, err := opts.base.open()
	if err != nil {
		return err
	}
	cfg := siteConfigOf(opts.env, b)
	cfg.Out = opts.env.abs(opts.out)
	res, err := generator.Build(ctx, cfg)
	if err != nil {
		return sourceError(opts.env, b, err)
	}
	opts.env.linef("%s in %s (%s written, %d unchanged, %d removed)", count(res.Pages, "page"), opts.out, count(len(res.Written), "file"), res.Unchanged, len(res.Removed))
	opts.env.linef("open %s", filepath.Join(cfg.Out, "index.html"))
	return nil
}

// siteConfigOf says what to build of a knowledge base.
func siteConfigOf(env *Env, b *base) generator.Config {
	cfg := generator.Config{Name: b.Config.Site.Title, BaseURL: b.Config.Site.BaseURL, Version: Version,
		Content: b.Content, Runbooks: b.Runbooks, Theme: site.Theme, Kinds: env.Kinds}
	if b.Root != "" {
		cfg.Sources = []string{filepath.Join(b.Root, "content"), filepath.Join(b.Root, "runbooks")}
	}
	return cfg
}

// sourceError prints what is wrong with the sources, each with its line, and
// returns the exit code for it. Other errors are returned as they are.
func sourceError(env *Env, b *base, err error) error {
	list, ok := diag.AsList(err)
	if !ok {
		return err
	}
	sources := map[string]diag.Source{}
	for _, d := range list {
		if text, err := os.ReadFile(filepath.Join(b.Root, d.Pos.File)); b.Root != "" && err == nil {
			sources[d.Pos.File] = diag.Source{Name: d.Pos.File, Text: string(text)}
		}
	}
	diag.Print(env.Stderr, list, sources)
	return &codedError{exitUsage, nil}
}

type bundleOptions struct {
	env    *Env
	base   *baseFlags
	format string
	out    string
}

// newBundleCmd returns 'rutter bundle'.
func newBundleCmd(env *Env, base *baseFlags, run func(context.Context, *bundleOptions) error) *cobra.Command {
	opts := &bundleOptions{env: env, base: base}
	var formats []string
	for _, f := range bundle.Formats() {
		formats = append(formats, f.Name+" ("+f.Doc+")")
	}
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Pack the site into one file to carry offline",
		Long: `Bundle builds the site and packs it into one file with a manifest of SHA-256
sums. The same sources give the same bytes; SOURCE_DATE_EPOCH sets the time of
the files in it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), opts) },
	}
	cmd.Flags().StringVar(&opts.format, "format", "zip", "one of "+strings.Join(formats, ", "))
	cmd.Flags().StringVarP(&opts.out, "out", "o", "", "file to write (default: dist/rutter with the format's ending)")
	return cmd
}

func runBundle(ctx context.Context, opts *bundleOptions) error {
	format, err := bundle.Find(opts.format)
	if err != nil {
		return usage(err)
	}
	epoch, err := sourceDate(opts.env.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return usage(err)
	}
	b, err := opts.base.open()
	if err != nil {
		return err
	}
	tree, err := generator.Render(ctx, siteConfigOf(opts.env, b))
	if err != nil {
		return sourceError(opts.env, b, err)
	}
	out := opts.out
	if out == "" {
		out = filepath.Join("dist", "rutter"+format.Ext)
	}
	err = writeFile(opts.env.abs(out), func(w io.Writer) error {
		return format.Write(ctx, w, tree, bundle.Options{Epoch: epoch})
	})
	if err != nil {
		return err
	}
	opts.env.linef("%s", out)
	return nil
}

// sourceDate reads SOURCE_DATE_EPOCH, seconds since 1970. Without it the time
// is 1980-01-01, the first that every format can hold, so that the same sources
// give the same bytes on any day.
func sourceDate(text string) (time.Time, error) {
	if text == "" {
		return time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC), nil
	}
	sec, err := strconv.ParseInt(text, 10, 64)
	if err != nil || sec < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q: want seconds since 1970", text)
	}
	return time.Unix(sec, 0).UTC(), nil
}

// writeFile writes a file whole or not at all.
func writeFile(path string, write func(io.Writer) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".rutter-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	if err := errors.Join(write(tmp), tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

type verifyOptions struct {
	env  *Env
	file string
}

// newVerifyCmd returns 'rutter verify'.
func newVerifyCmd(env *Env, run func(context.Context, *verifyOptions) error) *cobra.Command {
	opts := &verifyOptions{env: env}
	return &cobra.Command{
		Use:   "verify BUNDLE",
		Short: "Check that a bundle is whole and does no harm when unpacked",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.file = args[0]
			return run(cmd.Context(), opts)
		},
	}
}

func runVerify(ctx context.Context, opts *verifyOptions) error {
	m, err := bundle.VerifyFile(ctx, opts.env.abs(opts.file), bundle.Limits{})
	if err != nil {
		return fmt.Errorf("%s: %w", opts.file, err)
	}
	var size int64
	for _, f := range m.Files {
		size += f.Size
	}
	opts.env.linef("%s is whole: %s, %d bytes unpacked", opts.file, count(len(m.Files), "file"), size)
	return nil
}
