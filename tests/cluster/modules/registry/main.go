// Command registry serves an image registry by plain HTTP from a directory. It is the distribution project's registry
// without its cloud storage drivers, which are most of what its own command would compile. Pulls can be made to fail, see
// faults.go.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

func main() {
	address := flag.String("address", "127.0.0.1:5000", "address to listen on; port 0 takes a free one")
	directory := flag.String("directory", "", "where blobs and tags are kept")
	flag.Parse()
	if *directory == "" {
		log.Fatal("registry: --directory is missing")
	}
	config := &configuration.Configuration{
		Storage: configuration.Storage{
			"filesystem": configuration.Parameters{"rootdirectory": *directory},
			"delete":     configuration.Parameters{"enabled": true},
		},
	}
	config.HTTP.Addr = *address
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal("registry: ", err)
	}
	log.Print("registry: listening on ", listener.Addr())
	log.Fatal(http.Serve(listener, newFaults(handlers.NewApp(context.Background(), config))))
}
