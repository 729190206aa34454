// A stand-in for nvidia-cuda-mps-control: it takes a command where there is a pipe directory, which
// the MPS daemon makes, and fails where there is none, as the real one does without a daemon.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    const char *directory = getenv("CUDA_MPS_PIPE_DIRECTORY");
    while (getchar() != EOF)
        ;
    return directory && access(directory, F_OK) == 0 ? 0 : 1;
}
