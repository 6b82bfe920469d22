// Package release builds what make release hands out: for each platform an archive with the program, its manual pages and shell
// completions; from the same files packages, an image and lists of modules; and from the list of all their checksums the texts
// that package managers read. The same commit gives the same bytes, whoever builds it and when.
package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"prodigy/lab/try"
)

// platforms are those that an archive is made for.
var platforms = []struct{ os, arch string }{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"darwin", "amd64"},
	{"darwin", "arm64"},
	{"windows", "amd64"},
	{"windows", "arm64"},
}

// shells are those that cobra makes completions for.
var shells = []string{"bash", "zsh", "fish", "powershell"}

// file is one in an archive.
type file struct {
	name string
	mode os.FileMode
	data []byte
}

// Main is the tool.
func Main() {
	version := flag.String("version", "", "the version, as in v1.2.3")
	repo := flag.String("repo", "", "where it is published, as in github.com/OWNER/prodigy")
	out := flag.String("out", "dist", "directory to write to")
	flag.Parse()
	r := newRelease(*version, *repo, *out)
	r.build()
	r.fill()
}

// build writes the archives and all that is made of the same files.
func (r *release) build() {
	shared := sharedFiles()
	r.Schema = string(output("go", "run", "./cmd/prodigy", "schema"))
	programs := map[string]file{}
	for _, p := range platforms {
		name := fmt.Sprintf("prodigy_%s_%s_%s", r.Version, p.os, p.arch)
		program := compile(r.Version, p.os, p.arch)
		pack, ending := tarGz, ".tar.gz"
		if p.os == "windows" {
			pack, ending = zipped, ".zip"
		}
		content := append([]file{program}, shared...)
		archive := r.add(name+ending, pack(name, content))
		r.Archives[p.os+"_"+p.arch] = archive
		r.addModules(program, archive)
		if p.os == "linux" {
			programs[p.arch] = program
			r.addPackages(name, p.arch, content)
		}
	}
	r.add("prodigy_"+r.Version+"_image.tar.gz", r.image(programs))
}

// compile builds the program for a platform. Nothing of this machine gets into it.
func compile(version, goos, goarch string) file {
	dir := try.To(os.MkdirTemp("", "release-"))
	defer func() { _ = os.RemoveAll(dir) }()
	name := "prodigy"
	if goos == "windows" {
		name += ".exe"
	}
	path := filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X prodigy/internal/cli.version=v"+version, "-o", path, "./cmd/prodigy")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	try.Checkf(cmd.Run(), "build for %s/%s", goos, goarch)
	data := try.To(os.ReadFile(path))
	return file{name, 0o755, data}
}

// sharedFiles are the same for every platform: texts, manual pages and completions.
func sharedFiles() []file {
	var list []file
	for _, name := range []string{"README.md", "LICENSE"} {
		list = append(list, file{name, 0o644, try.To(os.ReadFile(name))})
	}
	dir := try.To(os.MkdirTemp("", "release-"))
	defer func() { _ = os.RemoveAll(dir) }()
	output("go", "test", "./internal/cli", "-tags", "man", "-count=1", "-run", "^TestManualPages$", "-man", dir)
	for _, page := range try.To(filepath.Glob(filepath.Join(dir, "*.1"))) {
		list = append(list, file{"man/" + filepath.Base(page), 0o644, try.To(os.ReadFile(page))})
	}
	for _, shell := range shells {
		list = append(list, file{"completions/prodigy." + shell, 0o644, output("go", "run", "./cmd/prodigy", "completion", shell)})
	}
	return list
}

func output(name string, args ...string) []byte {
	var out bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	try.Checkf(cmd.Run(), "%s %s", name, strings.Join(args, " "))
	return out.Bytes()
}

// epoch is the time of all files: archives that differ by when they were made could not be compared.
var epoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

func sorted(files []file) []file {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files
}

func tarGz(dir string, files []file) []byte {
	var b bytes.Buffer
	z := try.To(gzip.NewWriterLevel(&b, gzip.BestCompression))
	_ = try.To(z.Write(tarred(dir+"/", files)))
	try.Check(z.Close())
	return b.Bytes()
}

// tarred returns a tar of files, whose names begin with a prefix. One whose name ends with a slash is a directory.
func tarred(prefix string, files []file) []byte {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for _, f := range sorted(files) {
		header := tar.Header{Name: prefix + f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: epoch, Format: tar.FormatUSTAR}
		try.Check(t.WriteHeader(&header))
		_ = try.To(t.Write(f.data))
	}
	try.Check(t.Close())
	return b.Bytes()
}

func zipped(dir string, files []file) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range sorted(files) {
		header := zip.FileHeader{Name: dir + "/" + f.name, Method: zip.Deflate, Modified: epoch}
		header.SetMode(f.mode)
		w := try.To(z.CreateHeader(&header))
		_ = try.To(io.Copy(w, bytes.NewReader(f.data)))
	}
	try.Check(z.Close())
	return b.Bytes()
}
