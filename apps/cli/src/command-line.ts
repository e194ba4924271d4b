import type { CommandDefinition, FlagDefinition, FlagValues } from "@keelson/operator";
import type { Flag } from "@keelson/operator/flags";
import { Command, Option } from "commander";

/** Adds a flag to a command. */
export function addFlag(command: Command, flag: FlagDefinition): void {
  const value = flag.value === undefined ? "" : flag.repeatable ? ` <${flag.value}...>` : ` <${flag.value}>`;
  const short = flag.short === undefined ? "" : `-${flag.short}, `;
  const option = new Option(`${short}--${flag.name}${value}`, flag.description);
  if (flag.choices !== undefined) option.choices(flag.choices);
  // For the help and completion only: `option.choices` would reject every value that is not among them.
  if (flag.forms !== undefined) option.argChoices = [...flag.forms];
  // The result is printed at the end, when it is too late to reject the format.
  if (flag.forms !== undefined && isFlag(flag)) option.argParser((text: string) => (flag.read({ [flag.name]: text }), text));
  if (flag.default !== undefined) option.default(flag.repeatable ? [flag.default] : flag.default);
  if (flag.required) option.makeOptionMandatory();
  if (flag.env) option.env(flag.env);
  if (flag.repeatable) {
    // Commander's variadic options consume the following arguments too; users expect one value per flag.
    option.variadic = false;
    option.argParser((text: string, previous: readonly string[] | undefined) => [...(previous ?? []), text]);
  }
  command.addOption(option);
}

function isFlag(flag: FlagDefinition): flag is Flag<unknown> {
  return "read" in flag;
}

/** Adds `--kubeconfig` and `--context`, and `--verbose` unless the command's requests are not traced. */
export function addConnectionFlags(command: Command, { traces = true }: { readonly traces?: boolean } = {}): void {
  addFlag(command, {
    name: "kubeconfig",
    value: "FILE",
    description: "path of the kubeconfig file (default: $KUBECONFIG, ~/.kube/config)",
  });
  addFlag(command, { name: "context", value: "NAME", description: "kubeconfig context to use (default: the current context)" });
  if (!traces) return;
  addFlag(command, { name: "verbose", short: "v", description: "log every API request to standard error, as JSON lines" });
}

/** The values of a command's flags, by flag name. */
export function flagValues(command: Command): FlagValues {
  const values: Record<string, string | readonly string[] | true | undefined> = {};
  for (const option of command.options) {
    const value: unknown = command.getOptionValue(option.attributeName());
    if (typeof value === "string" || value === true) values[option.name()] = value;
    else if (Array.isArray(value)) values[option.name()] = value.map(String);
  }
  return values;
}

/** Creates a command with the arguments and flags of a definition; the caller sets the action. */
export function createCommand(definition: CommandDefinition): Command {
  const command = new Command(definition.name).description(definition.description);
  for (const argument of definition.args ?? []) {
    command.argument(argument.startsWith("[") ? argument : `<${argument}>`);
  }
  for (const flag of definition.flags ?? []) addFlag(command, flag);
  return command;
}
