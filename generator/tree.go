package generator

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// Tree is a built site in memory: file contents by path. It is an fs.FS; its
// files have no times, and mode 0644.
type Tree map[string][]byte

// Open implements fs.FS.
func (t Tree) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if data, ok := t[name]; ok {
		return &treeFile{treeInfo{path.Base(name), int64(len(data)), false}, bytes.NewReader(data)}, nil
	}
	entries := t.entries(name)
	if len(entries) == 0 && name != "." {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &treeDir{treeInfo{path.Base(name), 0, true}, entries}, nil
}

// Stat implements fs.StatFS.
func (t Tree) Stat(name string) (fs.FileInfo, error) {
	if data, ok := t[name]; ok {
		return treeInfo{path.Base(name), int64(len(data)), false}, nil
	}
	f, err := t.Open(name)
	if err != nil {
		return nil, err
	}
	return f.Stat()
}

// entries lists what is directly below a directory, sorted.
func (t Tree) entries(dir string) []fs.DirEntry {
	prefix := dir + "/"
	if dir == "." {
		prefix = ""
	}
	seen := map[string]treeInfo{}
	for name, data := range t {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		first, _, deeper := strings.Cut(rest, "/")
		if deeper {
			seen[first] = treeInfo{first, 0, true}
		} else {
			seen[first] = treeInfo{first, int64(len(data)), false}
		}
	}
	var out []fs.DirEntry
	for _, info := range seen {
		out = append(out, fs.FileInfoToDirEntry(info))
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out
}

type treeInfo struct {
	name string
	size int64
	dir  bool
}

// Name implements fs.FileInfo.
func (i treeInfo) Name() string { return i.name }

// Size implements fs.FileInfo.
func (i treeInfo) Size() int64 { return i.size }

// Mode implements fs.FileInfo.
func (i treeInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

// ModTime implements fs.FileInfo.
func (treeInfo) ModTime() time.Time { return time.Time{} }

// IsDir implements fs.FileInfo.
func (i treeInfo) IsDir() bool { return i.dir }

// Sys implements fs.FileInfo.
func (treeInfo) Sys() any { return nil }

type treeFile struct {
	info treeInfo
	*bytes.Reader
}

// Stat implements fs.File.
func (f *treeFile) Stat() (fs.FileInfo, error) { return f.info, nil }

// Close implements fs.File.
func (f *treeFile) Close() error { return nil }

type treeDir struct {
	info    treeInfo
	entries []fs.DirEntry
}

// Stat implements fs.File.
func (d *treeDir) Stat() (fs.FileInfo, error) { return d.info, nil }

// Close implements fs.File.
func (d *treeDir) Close() error { return nil }

// Read implements fs.File.
func (d *treeDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.info.name, Err: fs.ErrInvalid}
}

// ReadDir implements fs.ReadDirFile.
func (d *treeDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		all := d.entries
		d.entries = nil
		return all, nil
	}
	if len(d.entries) == 0 {
		return nil, io.EOF
	}
	some := d.entries[:min(n, len(d.entries))]
	d.entries = d.entries[len(some):]
	return some, nil
}
