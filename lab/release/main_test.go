package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"prodigy/lab/try"
)

// The order in which files are found does not change an archive, nor does when it is made.
func TestTheSameFilesGiveTheSameArchive(t *testing.T) {
	a, b := file{"a", 0o755, []byte("one")}, file{"b/c", 0o644, []byte("two")}
	for name, pack := range map[string]func(string, []file) []byte{"tar.gz": tarGz, "zip": zipped} {
		if !bytes.Equal(pack("d", []file{a, b}), pack("d", []file{b, a})) {
			t.Errorf("%s: the archives differ", name)
		}
	}
}

func TestPlaceholdersAreRefused(t *testing.T) {
	for _, names := range [][2]string{
		{"v1.2.3", "prodigy"},
		{"v1.2.3", ""},
		{"v1.2.3", "github.com/OWNER/prodigy"},
		{"v1.2.3", "https://github.com/a/prodigy"},
		{"v1.2.3", "github.com/prodigy"},
		{"", "github.com/a/prodigy"},
		{"1.2.3", "github.com/a/prodigy"},
		{"v1.2.3-4-gabcdef-dirty", "github.com/a/prodigy"},
	} {
		if try.Catch(func() { newRelease(names[0], names[1], "") }) == nil {
			t.Errorf("%q is accepted", names)
		}
	}
}

// Each text that names a file of the release has its checksum, too.
func TestTextsNameFilesWithTheirSums(t *testing.T) {
	r := newRelease("v1.2.3", "git.test/someone/prodigy", t.TempDir())
	r.Schema = "{\n  \"$schema\": \"s\"\n}\n"
	for _, p := range platforms {
		name := p.os + "_" + p.arch
		r.Archives[name] = r.add("prodigy_"+name, []byte(name))
	}
	r.fill()
	sums := map[string]string{}
	for _, f := range r.Archives {
		sums[f.Name] = f.Sum
	}
	address := regexp.MustCompile(regexp.QuoteMeta(r.Base) + `/(\w+)`)
	found := map[string]bool{}
	try.Check(fs.WalkDir(os.DirFS(r.out), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text := string(try.To(os.ReadFile(filepath.Join(r.out, path))))
		if strings.Contains(text, "OWNER") || strings.Contains(text, "<%") || strings.Contains(path, "OWNER") {
			t.Errorf("%s has a placeholder:\n%s", path, text)
		}
		for _, m := range address.FindAllStringSubmatch(text, -1) {
			found[path] = true
			if sum, ok := sums[m[1]]; !ok || !strings.Contains(text, sum) {
				t.Errorf("%s: names %s without its checksum", path, m[1])
			}
		}
		switch filepath.Ext(path) {
		case ".json":
			err = json.Unmarshal([]byte(text), new(any))
		case ".yaml", ".yml":
			err = yaml.Unmarshal([]byte(text), new(any))
		}
		if err != nil {
			t.Errorf("%s: %v:\n%s", path, err, text)
		}
		return nil
	}))
	for _, path := range []string{"aur/.SRCINFO", "aur/PKGBUILD", "homebrew/prodigy.rb", "repository/flake.nix", "scoop/prodigy.json", "winget/someone.prodigy.installer.yaml"} {
		if !found[path] {
			t.Errorf("%s names no file", path)
		}
	}
}

// All that an image refers to is in it, by its checksum.
func TestImageIsWhole(t *testing.T) {
	r := newRelease("v1.2.3", "git.test/someone/prodigy", t.TempDir())
	packed := tar.NewReader(try.To(gzip.NewReader(bytes.NewReader(r.image(map[string]file{"amd64": {data: []byte("a")}, "arm64": {data: []byte("b")}})))))
	has, wanted := map[string]bool{}, map[string]bool{}
	for {
		header, err := packed.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		try.Check(err)
		data := try.To(io.ReadAll(packed))
		name := strings.TrimPrefix(header.Name, "./")
		has[name] = true
		if sum, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && sum != fmt.Sprintf("%x", sha256.Sum256(data)) {
			t.Errorf("%s has another checksum", name)
		}
		if !json.Valid(data) {
			continue // a layer
		}
		for _, m := range regexp.MustCompile(`sha256[:/]([0-9a-f]{64})`).FindAllSubmatch(data, -1) {
			wanted["blobs/sha256/"+string(m[1])] = true
		}
	}
	if len(wanted) != 7 || !has["oci-layout"] || !has["index.json"] {
		t.Errorf("the image has %v, and refers to %v", has, wanted)
	}
	for name := range wanted {
		if !has[name] {
			t.Errorf("%s is missing", name)
		}
	}
}
