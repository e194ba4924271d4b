/* Writes lines in pieces, so that those of several ranks mix, and 200 long lines. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  int rank;
  char filler[2000];
  memset(filler, 'x', sizeof filler - 1);
  filler[sizeof filler - 1] = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 3; i++) {
    printf("piece %d ", i);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    usleep(20000);
    printf("of rank %d\n", rank);
    fflush(stdout);
  }
  for (int i = 0; i < 200; i++) printf("%d %d %s\n", rank, i, filler);
  fprintf(stderr, "error of rank %d\n", rank);
  printf("end of rank %d", rank);
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
