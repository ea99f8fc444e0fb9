// verify checks our evidence with the reference implementation of notes and tiled logs, and none of our own code.
//
//	verify export FOLDER VKEY        every entry of an exported log, its tiles and its signature
//	verify proof FILE VKEY           one entry in its tlog-proof
//	verify grown FOLDER OLD VKEY     that the exported log begins with what the checkpoint in OLD covers
package main

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// folder serves the tiles of tlog-tiles, whose paths leave the height out, to the reference's reader.
type folder string

func (f folder) Height() int                     { return 8 }
func (f folder) SaveTiles([]tlog.Tile, [][]byte) {}
func (f folder) ReadTiles(tiles []tlog.Tile) (found [][]byte, err error) {
	for _, t := range tiles {
		data, err := os.ReadFile(filepath.Join(string(f), strings.Replace(t.Path(), "tile/8/", "tile/", 1)))
		if err != nil {
			return nil, err
		}
		found = append(found, data)
	}
	return found, nil
}

func stop(err error) {
	if err != nil {
		fmt.Println("BAD:", err)
		os.Exit(1)
	}
}

func read(path string) []byte {
	data, err := os.ReadFile(path)
	stop(err)
	return data
}

func open(data []byte, vkey string) tlog.Tree {
	verifier, err := note.NewVerifier(vkey)
	stop(err)
	opened, err := note.Open(data, note.VerifierList(verifier))
	stop(err)
	lines := strings.Split(opened.Text, "\n")
	if len(lines) < 4 || lines[0] != verifier.Name() {
		stop(fmt.Errorf("no checkpoint of %s", verifier.Name()))
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	stop(err)
	root, err := tlog.ParseHash(lines[2])
	stop(err)
	return tlog.Tree{N: size, Hash: root}
}

func export(f folder, vkey string) {
	tree := open(read(filepath.Join(string(f), "checkpoint")), vkey)
	hashes := tlog.TileHashReader(tree, f)
	for first := int64(0); first < tree.N; first += 256 {
		width := tree.N - first
		if width > 256 {
			width = 256
		}
		place := tlog.Tile{H: 8, L: 0, N: first / 256, W: int(width)}
		data := read(filepath.Join(string(f), strings.Replace(place.Path(), "tile/8/0/", "tile/entries/", 1)))
		var indexes []int64
		for i := int64(0); i < width; i++ {
			indexes = append(indexes, tlog.StoredHashIndex(0, first+i))
		}
		wanted, err := hashes.ReadHashes(indexes)
		stop(err)
		for i := int64(0); i < width; i++ {
			if len(data) < 2 || len(data) < 2+int(binary.BigEndian.Uint16(data)) {
				stop(fmt.Errorf("entry %d is cut", first+i+1))
			}
			end := 2 + int(binary.BigEndian.Uint16(data))
			if tlog.RecordHash(data[2:end]) != wanted[i] {
				stop(fmt.Errorf("entry %d has another hash", first+i+1))
			}
			data = data[end:]
		}
		if len(data) != 0 {
			stop(fmt.Errorf("a bundle holds more than its entries"))
		}
	}
	fmt.Println("OK", tree.N)
}

func proof(path, vkey string) {
	head, checkpoint, _ := strings.Cut(string(read(path)), "\n\n")
	tree := open([]byte(checkpoint), vkey)
	lines := strings.Split(head, "\n")
	if len(lines) < 3 || lines[0] != "c2sp.org/tlog-proof@v1" {
		stop(fmt.Errorf("no proof"))
	}
	entry, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(lines[1], "extra "))
	stop(err)
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[2], "index "), 10, 64)
	stop(err)
	var path64 tlog.RecordProof
	for _, line := range lines[3:] {
		hash, err := tlog.ParseHash(line)
		stop(err)
		path64 = append(path64, hash)
	}
	stop(tlog.CheckRecord(path64, tree.N, tree.Hash, index, tlog.RecordHash(entry)))
	fmt.Println("OK", index+1)
}

func grown(f folder, old, vkey string) {
	tree, before := open(read(filepath.Join(string(f), "checkpoint")), vkey), open(read(old), vkey)
	path, err := tlog.ProveTree(tree.N, before.N, tlog.TileHashReader(tree, f))
	stop(err)
	stop(tlog.CheckTree(path, tree.N, tree.Hash, before.N, before.Hash))
	fmt.Println("OK", before.N, tree.N)
}

func main() {
	switch args := os.Args; {
	case len(args) == 4 && args[1] == "export":
		export(folder(args[2]), args[3])
	case len(args) == 4 && args[1] == "proof":
		proof(args[2], args[3])
	case len(args) == 5 && args[1] == "grown":
		grown(folder(args[2]), args[3], args[4])
	default:
		stop(fmt.Errorf("usage: verify export|proof|grown ..."))
	}
}
