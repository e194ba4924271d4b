/* Loads the TLS modules of Node.js before any test. Loaded lazily in a worker that test files share, they can stay incomplete. */
import "node:https";
import "node:tls";
