#!/bin/sh
# Installs prodigy <% .Version %>: downloads the archive for this machine, checks its SHA-256 checksum against the one in this
# script, and installs the program, its manual pages and its shell completions.
#
# Environment:
#   PREFIX            where to install to: PREFIX/bin and PREFIX/share (default: ~/.local)
#   PRODIGY_BASE_URL  where the archives are, also file:///directory
#                     (default: <% .Base %>)
set -eu

main() {
	base=${PRODIGY_BASE_URL:-<% .Base %>}
	prefix=${PREFIX:-$HOME/.local}
	choose
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	trap 'exit 1' HUP INT TERM
	fetch "$base/$archive" "$tmp/$archive"
	actual=$(checksum "$tmp/$archive")
	[ "$actual" = "$sum" ] || die "$archive: checksum is $actual, must be $sum; nothing was installed"
	tar -xzf "$tmp/$archive" -C "$tmp"
	unpacked=$tmp/${archive%.tar.gz}
	place 755 "$unpacked/prodigy" "$prefix/bin/prodigy"
	for page in "$unpacked"/man/*.1; do
		place 644 "$page" "$prefix/share/man/man1/${page##*/}"
	done
	place 644 "$unpacked/completions/prodigy.bash" "$prefix/share/bash-completion/completions/prodigy"
	place 644 "$unpacked/completions/prodigy.zsh" "$prefix/share/zsh/site-functions/_prodigy"
	place 644 "$unpacked/completions/prodigy.fish" "$prefix/share/fish/vendor_completions.d/prodigy.fish"
	echo "installed prodigy <% .Version %> in $prefix/bin"
	case :$PATH: in
	*":$prefix/bin:"*) ;;
	*) echo "$prefix/bin is not in PATH; add it: export PATH=\"$prefix/bin:\$PATH\"" ;;
	esac
}

die() {
	echo "install.sh: $*" >&2
	exit 1
}

# choose sets archive and sum.
choose() {
	system=$(uname -s)
	processor=$(uname -m)
	case $system in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) die "no archive for $system; on Windows use scoop or winget" ;;
	esac
	case $processor in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) die "no archive for processor $processor" ;;
	esac
	case ${os}_$arch in
<%- range $platform, $file := .Archives %>
	<% $platform %>)
		archive=<% $file.Name %>
		sum=<% $file.Sum %>
		;;
<%- end %>
	esac
}

# fetch downloads URL $1 to file $2.
fetch() {
	case $1 in
	file://*) cp "${1#file://}" "$2" || die "cannot read $1" ;;
	*)
		if command -v curl >/dev/null 2>&1; then
			curl -fsSL -o "$2" "$1" || die "cannot download $1"
		elif command -v wget >/dev/null 2>&1; then
			wget -q -O "$2" "$1" || die "cannot download $1"
		else
			die "curl or wget is required"
		fi
		;;
	esac
}

# checksum prints the SHA-256 checksum of a file.
checksum() {
	if command -v sha256sum >/dev/null 2>&1; then
		set -- "$(sha256sum <"$1")"
	elif command -v shasum >/dev/null 2>&1; then
		set -- "$(shasum -a 256 <"$1")"
	elif command -v openssl >/dev/null 2>&1; then
		set -- "$(openssl dgst -sha256 -r <"$1")"
	else
		die "sha256sum, shasum or openssl is required"
	fi
	echo "${1%% *}"
}

# place installs file $2 as $3 with mode $1. A program that runs keeps its file.
place() {
	mkdir -p "${3%/*}"
	cp "$2" "$3.new"
	chmod "$1" "$3.new"
	mv -f "$3.new" "$3"
}

# Called at the end, so that a script that was cut off does nothing.
main
