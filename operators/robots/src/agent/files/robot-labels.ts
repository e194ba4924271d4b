import { readFile } from "node:fs/promises";
import { isJsonObject, jsonEquals, parseJsonObject } from "@keelson/api-machinery";
import { openSealedText, sealText, writeFileAtomic } from "@keelson/execution/files";

type Labels = Readonly<Record<string, string>>;

/** The labels of the robot as the server last sent them. They are on disk, so that templates can be rendered without a network. */
export class RobotLabels {
  readonly #file: string;
  #labels: Labels;

  private constructor(file: string, labels: Labels) {
    this.#file = file;
    this.#labels = labels;
  }

  /** Reads the labels from `file`. `initial` are those of a robot that the server has not answered yet. */
  static async open(file: string, initial: Labels): Promise<RobotLabels> {
    const stored = parseJsonObject(openSealedText(await readFile(file, "utf8").catch(() => "")) ?? "");
    return new RobotLabels(file, isLabels(stored) ? stored : initial);
  }

  get current(): Labels {
    return this.#labels;
  }

  /** Stores labels. Returns whether they differ from the last ones. */
  async update(labels: Labels): Promise<boolean> {
    if (jsonEquals(labels, this.#labels)) return false;
    this.#labels = labels;
    await writeFileAtomic(this.#file, sealText(JSON.stringify(labels)), { durable: false });
    return true;
  }
}

function isLabels(value: unknown): value is Labels {
  return isJsonObject(value) && Object.values(value).every((each) => typeof each === "string");
}
