package release

import (
	"bytes"
	"crypto/sha256"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"prodigy/lab/try"
)

// platformImage is the image of one processor. Its layer is not compressed, so that its checksum is its id as well.
type platformImage struct {
	Arch                    string
	Layer, Config, Manifest blob
}

// blob is a file of an image, which is named by its checksum.
type blob struct {
	Sum  string
	Size int
}

// image returns a tar of an OCI image layout with the programs, by processor. docker load can read it, too.
func (r *release) image(programs map[string]file) []byte {
	var files []file
	add := func(data []byte) blob {
		sum := fmt.Sprintf("%x", sha256.Sum256(data))
		files = append(files, file{"blobs/sha256/" + sum, 0o644, data})
		return blob{sum, len(data)}
	}
	var images []platformImage
	for _, arch := range []string{"amd64", "arm64"} {
		i := platformImage{Arch: arch, Layer: add(tarred("", []file{
			{"usr/bin/prodigy", 0o755, programs[arch].data},
			{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()},
			{"home/", 0o1777, nil},
			{"tmp/", 0o1777, nil},
			{"work/", 0o1777, nil},
		}))}
		i.Config = add(filled("parts/image-config.json", i))
		i.Manifest = add(filled("parts/image-manifest.json", i))
		images = append(images, i)
	}
	data := map[string]any{"Release": r, "Images": images}
	data["Index"] = add(filled("parts/image-index.json", data))
	for _, name := range []string{"oci-layout", "index.json", "manifest.json"} {
		files = append(files, file{name, 0o644, filled("parts/"+name, data)})
	}
	return tarGz(".", files)
}

// authorities returns the certificates that Mozilla trusts.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		try.Check(pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
	}
	return b.Bytes()
}
