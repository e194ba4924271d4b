import { closeSync, readdirSync, readFileSync } from "node:fs";

/** O_CLOEXEC in the flags of /proc/self/fdinfo, which are octal. */
const closeOnExec = 0o2000000;

/**
 * Closes the descriptors that this process has inherited, except standard input and output. Node.js keeps those above 15 for programs that
 * it starts: a directory among them would lead a sandbox to the machine's files. A supervisor of programs calls this first, before libraries
 * open files; what Node.js itself has opened is not passed on and stays open.
 */
export function closeInheritedDescriptors(): void {
  for (const name of readdirSync("/proc/self/fd")) {
    const descriptor = Number(name);
    if (descriptor > 2 && isPassedOn(descriptor)) closeSync(descriptor);
  }
}

/** Whether programs that this process starts inherit a descriptor. */
function isPassedOn(descriptor: number): boolean {
  try {
    const flags = /^flags:\s+(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, "latin1"))?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0;
  } catch {
    // The descriptor of the directory that was listed.
    return false;
  }
}
