// Generates src/generated from proto/; with --check only says whether it is up to date (exit status 1 if not).
import { resolve } from "node:path";
import { generateProtobuf } from "../../../scripts/protobuf.mjs";

generateProtobuf(resolve(import.meta.dirname, ".."), "src/generated");
