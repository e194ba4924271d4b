// Generates src/generated from the protocol of operators/sandboxes; with --check only says whether it is up to date (exit status 1 if not).
import { resolve } from "node:path";
import { generateProtobuf } from "../../../scripts/protobuf.mjs";

const home = resolve(import.meta.dirname, "..");
generateProtobuf(home, "src/generated", resolve(home, "../../operators/sandboxes/proto"));
