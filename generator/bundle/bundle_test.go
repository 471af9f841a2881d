package bundle

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func sampleTree() fstest.MapFS {
	return fstest.MapFS{
		"index.html":             {Data: []byte("<!doctype html><title>x</title>")},
		"assets/rutter.css":      {Data: []byte(strings.Repeat("a{}", 500))},
		"faq/unpeer/index.html":  {Data: []byte("unpeer"), ModTime: time.Now(), Mode: 0o600},
		".rutter-build.json":     {Data: []byte("{}")},
		"runbooks/日本/index.html": {Data: []byte("x")},
	}
}

func pack(t testing.TB, tree fs.FS, epoch int64) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Zip().Write(context.Background(), &b, tree, Options{Epoch: time.Unix(epoch, 0)}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func verify(b []byte, l Limits) error {
	_, err := Verify(context.Background(), bytes.NewReader(b), int64(len(b)), l)
	return err
}

func TestZipIsReproducibleAndVerifies(t *testing.T) {
	a, b := pack(t, sampleTree(), 1_800_000_000), pack(t, sampleTree(), 1_800_000_000)
	if !bytes.Equal(a, b) {
		t.Error("two bundles of one tree differ")
	}
	if bytes.Equal(a, pack(t, sampleTree(), 1_700_000_000)) {
		t.Error("the epoch changes nothing")
	}
	m, err := Verify(context.Background(), bytes.NewReader(a), int64(len(a)), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Files) != 4 {
		t.Errorf("manifest lists %d files, want 4 (none whose name starts with a dot)", len(m.Files))
	}
}

func TestZipRefusesTreesThatCannotBeCarried(t *testing.T) {
	for name, tree := range map[string]fstest.MapFS{
		"the name is taken":  {ManifestName: {Data: []byte("{}")}},
		"not a regular file": {"link": {Mode: fs.ModeSymlink, Data: []byte("index.html")}},
		"colon in a name":    {"a:b": {}},
		"is a device":        {"docs/nul.html": {}},
	} {
		err := Zip().Write(context.Background(), &bytes.Buffer{}, tree, Options{})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error that says %q", err, name)
		}
	}
}

func TestEveryChangedByteIsFound(t *testing.T) {
	good := pack(t, sampleTree(), 0)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= byte(1 + r.IntN(255))
		if verify(bad, Limits{}) == nil {
			t.Fatalf("byte %d of %d changed unseen", i, len(good))
		}
	}
	for n := range len(good) {
		if verify(good[:n], Limits{}) == nil {
			t.Fatalf("cut to %d of %d bytes unseen", n, len(good))
		}
	}
}

// entry is one file of a hand-made archive; sum and size are what the manifest
// says about it, "" for the truth, "-" for nothing.
type entry struct {
	name, data, sum string
	mode            fs.FileMode
}

// forge makes a sealed archive that Zip would never write.
func forge(t testing.TB, entries []entry, extra func(*zip.Writer)) []byte {
	t.Helper()
	var b bytes.Buffer
	m := Manifest{Version: 1}
	for _, e := range entries {
		h := sha256.Sum256([]byte(e.data))
		f := ManifestFile{Path: e.name, Size: int64(len(e.data)), SHA256: hex.EncodeToString(h[:])}
		if e.sum != "" {
			f.SHA256 = e.sum
		}
		if e.sum != "-" {
			m.Files = append(m.Files, f)
		}
	}
	manifest, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	s := &sealWriter{w: &b, sum: sha256.New()}
	zw := zip.NewWriter(s)
	for _, e := range append([]entry{{name: ManifestName, data: string(manifest)}}, entries...) {
		if e.data == "absent" {
			continue
		}
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(0o644)
		if e.mode != 0 {
			h.SetMode(e.mode)
		}
		w, err := zw.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.data)); err != nil {
			t.Fatal(err)
		}
	}
	if extra != nil {
		extra(zw)
	}
	if err := zw.SetComment(sealPrefix + strings.Repeat("0", 64)); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.seal(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestVerifyNamesTheFileAtFault(t *testing.T) {
	ok := entry{name: "a.html", data: "a"}
	for _, tc := range []struct {
		name    string
		entries []entry
		limits  Limits
		want    string
	}{
		{"a good one", []entry{ok}, Limits{}, ""},
		{"wrong sum", []entry{ok, {name: "b.html", data: "b", sum: strings.Repeat("0", 64)}}, Limits{}, "b.html: its size or sum"},
		{"missing", []entry{ok, {name: "b.html", data: "absent"}}, Limits{}, "b.html: missing"},
		{"extra", []entry{ok, {name: "b.html", data: "b", sum: "-"}}, Limits{}, "b.html: not in the manifest"},
		{"extra between", []entry{ok, {name: "b.html", data: "b", sum: "-"}, {name: "c.html", data: "c"}}, Limits{}, "b.html: not in the manifest"},
		{"dot dot", []entry{{name: "../x", data: "a"}}, Limits{}, `"../x": path leads outside`},
		{"dot dot inside", []entry{{name: "a/../../x", data: "a"}}, Limits{}, `"a/../../x": path leads outside`},
		{"absolute", []entry{{name: "/etc/x", data: "a"}}, Limits{}, `"/etc/x": absolute path`},
		{"backslash", []entry{{name: `..\x`, data: "a"}}, Limits{}, "backslash in a name"},
		{"drive", []entry{{name: "C:x", data: "a"}}, Limits{}, "colon in a name"},
		{"directory", []entry{{name: "d/", data: ""}}, Limits{}, `"d/": path leads outside of the bundle or is not`},
		{"symlink", []entry{{name: "l", data: "/etc/passwd", mode: fs.ModeSymlink | 0o777}}, Limits{}, "l: not a plain file"},
		{"executable", []entry{{name: "l", data: "x", mode: 0o755}}, Limits{}, "l: not a plain file"},
		{"twice", []entry{ok, ok}, Limits{}, "a.html: there twice"},
		{"twice by case", []entry{{name: "A.html", data: "a"}, ok}, Limits{}, "a.html: there twice, also as A.html"},
		{"one too large", []entry{{name: "z", data: strings.Repeat("0", 5000)}}, Limits{FileBytes: 4999}, "z: 5000 bytes, more than the limit"},
		{"all too large", []entry{{name: "y", data: strings.Repeat("0", 800)}, {name: "z", data: strings.Repeat("0", 800)}}, Limits{Bytes: 1500}, "z: all files together"},
		{"too many", []entry{ok, {name: "b", data: "b"}}, Limits{Files: 2}, "3 files, more than the limit of 2"},
		{"out of order", []entry{{name: "b", data: "b"}, {name: "a", data: "a"}}, Limits{}, "a is out of order"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := verify(forge(t, tc.entries, nil), tc.limits)
			if tc.want == "" {
				if err != nil {
					t.Errorf("got %v, want nil", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error that says %q", err, tc.want)
			}
		})
	}
}

func TestVerifyBoundsWhatAnEntryUnpacksTo(t *testing.T) {
	bomb := forge(t, nil, func(zw *zip.Writer) {
		var deflated bytes.Buffer
		inner := zip.NewWriter(&deflated)
		w, err := inner.Create("x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if err := inner.Close(); err != nil {
			t.Fatal(err)
		}
		zr, err := zip.NewReader(bytes.NewReader(deflated.Bytes()), int64(deflated.Len()))
		if err != nil {
			t.Fatal(err)
		}
		h := zr.File[0].FileHeader
		h.SetMode(0o644)
		h.UncompressedSize64 = 10 // a lie
		raw, err := zr.File[0].OpenRaw()
		if err != nil {
			t.Fatal(err)
		}
		out, err := zw.CreateRaw(&h)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, h.CompressedSize64)
		if _, err := io.ReadFull(raw, buf); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(buf); err != nil {
			t.Fatal(err)
		}
	})
	if err := verify(bomb, Limits{}); err == nil {
		t.Error("an entry that lies about its size was accepted")
	}
}

func FuzzVerify(f *testing.F) {
	good := pack(f, sampleTree(), 0)
	f.Add(good, uint32(0), byte(0))
	f.Add(good, uint32(40), byte(1))
	f.Add([]byte("PK\x03\x04"), uint32(0), byte(0))
	f.Add(forge(f, []entry{{name: "../x", data: "a"}}, nil), uint32(0), byte(0))
	f.Fuzz(func(t *testing.T, b []byte, at uint32, flip byte) {
		err := verify(b, Limits{FileBytes: 1 << 20, Bytes: 1 << 21})
		if len(b) == 0 || flip == 0 || err != nil {
			return
		}
		b = bytes.Clone(b)
		b[int(at)%len(b)] ^= flip
		if verify(b, Limits{}) == nil {
			t.Errorf("byte %d changed unseen", int(at)%len(b))
		}
	})
}
